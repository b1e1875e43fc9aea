// The first view: what needs a person, what runs, what waits and why, and who dispatches.

import { get, missionPath } from "./api.js";
import { buttons } from "./actions.js";
import { h, put, Rows, lines } from "./dom.js";
import { elapsed, entryRow, facts, listOr, mark, missionLink, runRow, section, time, waitingFor } from "./parts.js";
import { shared, Source } from "./store.js";
import { at, count, now, span } from "./words.js";

const MOST_WAITING = 5;

/** All that a person should look at, the worst first. */
function needs(status, missions) {
  const claims = status.claims.filter((one) => one.verdict !== "alive");
  const told = (name) => status.warnings.find((one) => one.claim === name);
  const warned = status.warnings.filter((one) => !one.listed && !claims.some((claim) => claim.name === one.claim));
  return [
    ...claims.map((one) => ({ kind: "claim", ...one, told: told(one.name) })),
    ...missions.entries.filter((one) => one.state === "parked").map((entry) => ({ kind: "parked", entry })),
    ...missions.quarantined.map((one) => ({ kind: "file", state: "quarantined", ...one })),
    ...missions.bad.map((one) => ({ kind: "file", state: "no entry", ...one })),
    ...warned.map((one) => ({ kind: "warning", ...one })),
  ];
}

function needRow(one) {
  if (one.kind === "parked") return entryRow(one.entry);
  if (one.kind === "claim") {
    const what = one.verdict === "gone" ? "holder gone" : "holder unknown";
    return h(
      "li",
      { class: "row" },
      h("span", { class: "mark bad" }, what),
      h("span", { class: "name" }, missionLink(one.mission)),
      h(
        "span",
        { class: "note wide", dir: "auto" },
        one.told?.text ?? one.evidence,
        " ",
        h("span", { class: "advice" }, one.told?.advice ?? "See: kranzq recover"),
      ),
    );
  }
  if (one.kind === "file") {
    return h(
      "li",
      { class: "row" },
      h("span", { class: "mark bad" }, one.state),
      h("span", { class: "name", dir: "auto" }, one.file),
      h("span", { class: "note wide", dir: "auto" }, one.why),
    );
  }
  return h(
    "li",
    { class: "row" },
    h("span", { class: "mark hold" }, "look"),
    h(
      "span",
      { class: "note widest", dir: "auto" },
      one.text,
      one.advice === "" ? "" : h("span", { class: "advice" }, one.advice),
    ),
  );
}

async function lastLine(status) {
  const busy = status?.busy;
  if (!busy?.mission || busy.run === null || busy.lastOutput === null) return null;
  try {
    const answer = await get(missionPath(busy.mission, `/log?run=${busy.run}&offset=-2000`));
    const all = lines(new TextDecoder().decode(await answer.arrayBuffer()))
      .split("\n")
      .map((one) => one.trim());
    return all.filter((one) => one !== "").pop() ?? "";
  } catch {
    return null;
  }
}

function running(status, line) {
  const busy = status.busy;
  if (busy === null) return h("p", { class: "quiet" }, "Nothing runs.");
  if (busy.mission === null) return h("p", null, "Busy: ", busy.text);
  const since = at(busy.since);
  const spoke = at(busy.lastOutput);
  return h(
    "div",
    { class: "now" },
    h(
      "p",
      { class: "headline" },
      mark("claimed"),
      " ",
      missionLink(busy.mission),
      since === null ? "" : elapsed(since, (text) => ` for ${text}`),
    ),
    line === null
      ? null
      : h("p", { class: "lastline" }, line === "" ? "It has said nothing yet." : h("code", { dir: "auto" }, line)),
    facts([
      ["Run", busy.run],
      ["Since", time(busy.since)],
      ["Last output", spoke === null ? null : elapsed(spoke, (text) => `${text} ago`)],
      ["Keeper", busy.pid === null ? null : `pid ${busy.pid}`],
      ["User", busy.user],
      ["kranz says", busy.kranzStatus],
    ]),
    h("p", { class: "acts" }, buttons(busy.mission, { state: "claimed" })),
  );
}

function daemon(status) {
  const paused =
    status.paused === null
      ? null
      : h(
          "p",
          { class: "hold-text" },
          mark("parked"),
          " Paused, nothing new starts: ",
          status.paused,
          " ",
          h("span", { class: "advice" }, "Type: kranzq resume"),
        );
  const one = status.daemon;
  if (one === null) {
    const why = status.daemonHidden ?? "No daemon runs here: nothing starts by itself.";
    return [
      paused,
      h(
        "p",
        null,
        h("span", { class: "mark hold" }, "none"),
        " ",
        why,
        " ",
        status.daemonHidden === null ? h("span", { class: "advice" }, "Type: kranzq daemon") : "",
      ),
    ];
  }
  return [
    paused,
    facts([
      ["State", one.stopping ? "is stopping" : "waits for work and starts it"],
      ["Process", one.pid],
      ["Since", time(one.since)],
      ["Watches by", one.watching],
      ["Last looked", at(one.lastScan) === null ? null : elapsed(at(one.lastScan), (text) => `${text} ago`)],
      ["Version", one.version],
    ]),
  ];
}

function waiting(body, rows, status, missions) {
  const open = missions.entries.filter((one) => ["queued", "waiting", "inbox"].includes(one.state));
  const said = [count(status.queued, "is in line", "are in line"), `${status.waiting} wait for a time or for others`];
  if (status.inbox > 0) said.push(`${status.inbox} in the inbox`);
  if (status.due !== null) said.push(`the next is due in ${span(at(status.due) - now())}`);
  if (open.length === 0) {
    rows.there = new Map();
    return put(body, h("p", { class: "quiet" }, "Nothing waits."));
  }
  const more = open.length - MOST_WAITING;
  put(
    body,
    h("p", null, `${said.join(", ")}.`),
    rows.parent,
    more > 0 ? h("p", null, h("a", { href: "#/queue" }, `and ${more.toLocaleString("en")} more`)) : null,
  );
  rows.show(open.slice(0, MOST_WAITING), (one) => `${one.mission} ${one.seq}`);
}

function others(stats, presence) {
  const states = Object.entries(stats?.states ?? {}).filter(([, number]) => number > 0);
  return h(
    "ul",
    { class: "counts" },
    states.map(([state, number]) =>
      h("li", null, h("a", { href: `#/work/${state}` }, h("strong", null, number.toLocaleString("en")), ` ${state}`)),
    ),
    states.length === 0 ? h("li", { class: "quiet" }, "The work queue is empty.") : null,
    stats !== null && stats.unseen > 0
      ? h("li", { class: "hold-text" }, `${stats.unseen} for agents that were never seen here`)
      : null,
    h(
      "li",
      null,
      h("a", { href: "#/presence" }, h("strong", null, presence?.claims.length ?? "–"), " presence claims"),
    ),
  );
}

export function mount(root) {
  const parts = Object.fromEntries(
    ["Needs a person", "Running", "Waiting", "Daemon", "Lately ended", "Work queue"].map((title) => [
      title,
      section(title),
    ]),
  );
  const list = (make) => new Rows(h("ul", { class: "rows" }), make);
  const rows = { needs: list(needRow), waiting: list(entryRow), ended: list((run) => runRow(run)) };
  const { status, missions, ended, stats, presence } = shared;
  const line = new Source(
    () => lastLine(status.value),
    () => false,
    2000,
  );
  const stack = (...titles) =>
    h(
      "div",
      { class: "stack" },
      titles.map((title) => parts[title].root),
    );
  put(
    root,
    h("h1", { class: "quiet-title" }, "Overview"),
    parts["Needs a person"].root,
    h("div", { class: "columns" }, stack("Running", "Waiting", "Lately ended"), stack("Daemon", "Work queue")),
  );

  const aboutQueue = () => {
    if (status.value === null || missions.value === null) {
      const missing = status.value === null ? status : missions;
      for (const title of ["Needs a person", "Running", "Waiting", "Daemon"])
        put(parts[title].body, waitingFor(missing));
      return;
    }
    const wanted = needs(status.value, missions.value);
    parts["Needs a person"].root.classList.toggle("urgent", wanted.length > 0);
    listOr(
      parts["Needs a person"].body,
      rows.needs,
      wanted,
      (one) => `${one.kind} ${one.entry?.mission ?? one.name ?? one.file ?? one.text}`,
      "Nothing needs you.",
    );
    waiting(parts.Waiting.body, rows.waiting, status.value, missions.value);
    put(parts.Daemon.body, daemon(status.value));
  };
  let drawn = "";
  const aboutRun = () => {
    if (status.value === null) return;
    const data = JSON.stringify([status.value.busy, line.value]);
    if (data === drawn) return;
    drawn = data;
    const held = parts.Running.body.contains(document.activeElement)
      ? (document.activeElement.dataset.act ?? "link")
      : null;
    put(parts.Running.body, running(status.value, line.value));
    if (held !== null) parts.Running.body.querySelector(held === "link" ? "a" : `[data-act="${held}"]`)?.focus();
  };
  const ends = [
    status.use(() => {
      aboutQueue();
      if (JSON.stringify(status.value?.busy?.mission) !== JSON.stringify(line.of)) {
        line.of = status.value?.busy?.mission;
        line.value = null;
        line.touch(0);
      }
      aboutRun();
    }),
    missions.use(aboutQueue),
    line.use(aboutRun),
    ended.use(() => {
      const runs =
        ended.value?.runs
          .filter((one) => one.endedAt !== null)
          .slice(-6)
          .reverse() ?? [];
      if (ended.value === null) put(parts["Lately ended"].body, waitingFor(ended));
      else
        listOr(
          parts["Lately ended"].body,
          rows.ended,
          runs,
          (one) => `${one.mission} ${one.run}`,
          "Nothing has run yet.",
        );
    }),
    stats.use(() =>
      put(parts["Work queue"].body, stats.value === null ? waitingFor(stats) : others(stats.value, presence.value)),
    ),
    presence.use(() => stats.value !== null && put(parts["Work queue"].body, others(stats.value, presence.value))),
  ];
  return () => ends.forEach((end) => end());
}
