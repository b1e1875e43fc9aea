// One mission: why it does what it does, when it did it, what it says, and what is known of its crashes.

import { buttons } from "./actions.js";
import { ask, missionPath } from "./api.js";
import { h, put } from "./dom.js";
import { Log } from "./log.js";
import { facts, mark, section, time, took, waitingFor } from "./parts.js";
import { shared, Source } from "./store.js";
import { timeline } from "./timeline.js";
import { fateWord, span } from "./words.js";

/** What a keeper's or a dispatcher's death left as proof: of runs that were interrupted, and of claims now. */
function evidence(runs, claims) {
  const found = runs.filter((run) => ["interrupted", "not started"].includes(run.outcome) || run.survivors.length > 0);
  const rows = found.map((run) =>
    h(
      "li",
      null,
      h("strong", null, `Run ${run.run}`),
      " ",
      mark(run.outcome ?? run.state),
      " ",
      h("span", { dir: "auto" }, run.reason),
      `; then: ${fateWord(run.fate) ?? "not decided yet"}${run.counted ? "" : ", not counted"}.`,
      run.survivors.length === 0
        ? null
        : ` It left processes: ${run.survivors.map((one) => `${one.pid} ${one.name}`).join(", ")}.`,
      h(
        "span",
        { class: "quiet" },
        ` Keeper ${run.keeper}, process ${run.process ?? "none"}, recorded by ${run.version}.`,
      ),
    ),
  );
  const live = claims.map((one) =>
    h(
      "li",
      null,
      h("strong", null, "Claim now"),
      " ",
      h("span", { class: `mark ${one.verdict === "alive" ? "run" : "bad"}` }, `holder ${one.verdict}`),
      " ",
      h("span", { dir: "auto" }, one.evidence),
    ),
  );
  return rows.length > 0 || claims.some((one) => one.verdict !== "alive") ? [...live, ...rows] : [];
}

function runFacts(run) {
  return h(
    "li",
    null,
    h("h3", null, `Run ${run.run} `, mark(run.outcome ?? run.state)),
    facts([
      ["Claimed", time(run.claimedAt)],
      ["Started", time(run.startedAt)],
      ["Ended", time(run.endedAt)],
      ["Took", took(run) === null ? null : span(took(run))],
      ["Exit code", run.exitCode],
      ["Signal", run.signal],
      ["Then", fateWord(run.fate)],
      ["Reason", run.reason],
    ]),
  );
}

export function mount(root, mission) {
  const ours = (kind, data) => kind === "mission" && data.mission === mission;
  const one = new Source(() => ask("GET", missionPath(mission)), ours);
  const why = new Source(
    () => ask("GET", missionPath(mission, "/why")),
    (kind) => kind === "mission",
    10_000,
  );
  const times = new Source(() => ask("GET", `/v1/timeline?mission=${encodeURIComponent(mission)}&last=200`), ours);
  const head = h("p", { class: "headline" });
  const acts = h("p", { class: "acts" });
  const parts = Object.fromEntries(
    ["Why", "Timeline", "Output", "Crash evidence", "Runs"].map((title) => [title, section(title)]),
  );
  const log = new Log(mission);
  put(
    root,
    h("div", { class: "head" }, h("h1", { dir: "auto" }, mission), head, acts),
    Object.values(parts).map((part) => part.root),
  );
  put(parts.Output.body, log.root);
  parts["Crash evidence"].root.hidden = true;

  let actsFor = "";
  const about = () => {
    if (one.value === null) return put(head, waitingFor(one));
    const entry = one.value.entries[0] ?? { state: one.value.state, priority: null, due: null };
    put(
      head,
      mark(one.value.state),
      " ",
      entry.priority === null ? "" : `priority ${entry.priority}${entry.seq === null ? "" : `, #${entry.seq}`}`,
      entry.due === null ? "" : [", due ", time(entry.due)],
    );
    const key = JSON.stringify(entry);
    if (actsFor !== key) {
      actsFor = key;
      const held = acts.contains(document.activeElement);
      put(acts, buttons(mission, entry));
      if (held) (acts.querySelector("button") ?? root.querySelector("h1")).focus();
    }
  };
  const drawn = () => {
    if (times.value === null) return put(parts.Timeline.body, waitingFor(times));
    const { runs, waiting } = times.value;
    put(parts.Timeline.body, timeline(runs, waiting, parts.Timeline.body.clientWidth));
    put(
      parts.Runs.body,
      runs.length === 0
        ? h("p", { class: "quiet" }, "It has not run yet.")
        : h("ol", { class: "plain", reversed: true }, [...runs].reverse().map(runFacts)),
    );
    log.follow(runs);
    proof();
  };
  const proof = () => {
    const claims = (shared.status.value?.claims ?? []).filter((claim) => claim.mission === mission);
    const found = evidence(times.value?.runs ?? [], claims);
    parts["Crash evidence"].root.hidden = found.length === 0;
    put(parts["Crash evidence"].body, h("ul", { class: "plain" }, found));
  };
  const reasons = () => {
    if (why.value === null) return put(parts.Why.body, waitingFor(why));
    put(
      parts.Why.body,
      h(
        "ul",
        { class: "plain why" },
        why.value.reasons.map((reason) =>
          h(
            "li",
            { dir: "auto" },
            reason.text,
            reason.clear === "" ? "" : h("span", { class: "advice" }, reason.clear),
          ),
        ),
      ),
    );
  };
  const redraw = () =>
    times.value !== null &&
    put(parts.Timeline.body, timeline(times.value.runs, times.value.waiting, parts.Timeline.body.clientWidth));
  addEventListener("resize", redraw);
  const goesOn = setInterval(() => times.value?.runs.some((run) => run.endedAt === null) && redraw(), 1000);
  const ends = [one.use(about), why.use(reasons), times.use(drawn), shared.status.use(proof)];
  return () => {
    removeEventListener("resize", redraw);
    clearInterval(goesOn);
    log.end();
    ends.forEach((end) => end());
  };
}
