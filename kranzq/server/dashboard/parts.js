// Pieces that several views show in the same way.

import { buttons } from "./actions.js";
import { h, lines, put } from "./dom.js";
import { at, clock, count, look, now, seconds, span, stateWord } from "./words.js";

/** A state as a word with a mark; the mark's colour says nothing that the word does not. */
export const mark = (state, word = stateWord(state)) => h("span", { class: `mark ${look(state)}` }, word);

/** A moment, with the exact one for machines. */
export const time = (value) =>
  at(value) === null ? "–" : h("time", { datetime: new Date(at(value)).toISOString() }, clock(at(value)));

const ticking = new Set();

/** How long something has lasted by now; goes on by itself while it is on the page. */
export function elapsed(since, words = (text) => text) {
  const one = h("span", { class: "elapsed" });
  const tick = () => {
    const text = words(seconds(now() - since));
    if (one.textContent !== text) one.textContent = text;
  };
  tick();
  ticking.add({ one, tick });
  return one;
}

setInterval(() => {
  for (const each of ticking) {
    if (each.one.isConnected) each.tick();
    else ticking.delete(each);
  }
}, 1000);

export const missionLink = (mission) =>
  h("a", { href: `#/mission/${encodeURIComponent(mission)}`, dir: "auto" }, mission);
export const itemLink = (one) => h("a", { href: `#/item/${encodeURIComponent(one.id)}`, dir: "auto" }, one.title);

/** A section with its heading; `body` is what changes. */
export function section(title, props = {}) {
  const id = `h-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const body = h("div", { class: "body" });
  return {
    root: h("section", { class: "panel", "aria-labelledby": id, ...props }, h("h2", { id }, title), body),
    body,
  };
}

/** What is there while nothing is known, and when the server refused. */
export function waitingFor(source) {
  if (source.fault === null) return h("p", { class: "quiet" }, "Asking …");
  return h("p", { class: "fault" }, source.fault.message, " ", source.fault.hint);
}

/** One row of a mission's entry. */
export function entryRow(entry) {
  const after = entry.waitingFor.length > 0 ? `after ${entry.waitingFor.join(", ")}` : "";
  const due = entry.due !== null ? ["due ", time(entry.due)] : null;
  const worth = entry.signed === true ? null : entry.signed === false ? "unsigned" : entry.signed;
  const told = entry.note !== "" ? entry.note : after;
  const note = [due, told, worth !== null && told.includes(worth) ? null : worth].filter(
    (one) => one !== null && one !== "",
  );
  const parts = note.flatMap((one, number) => (number === 0 ? [one] : [" · ", one]));
  return h(
    "li",
    { class: "row" },
    mark(entry.state),
    h("span", { class: "name" }, missionLink(entry.mission)),
    h(
      "span",
      { class: "number" },
      h("span", { class: "quiet" }, "priority "),
      entry.priority,
      h("span", { class: "quiet" }, entry.seq === null ? "" : ` · #${entry.seq}`),
    ),
    h("span", { class: "note", dir: "auto" }, parts),
    h("span", { class: "acts" }, buttons(entry.mission, entry)),
  );
}

/** How long a run took, or takes. */
export const took = (run) => (at(run.startedAt) === null ? null : (at(run.endedAt) ?? now()) - at(run.startedAt));

/** One row of a run that has ended. */
export function runRow(run, retry = true) {
  const why =
    run.reason !== "" && run.reason !== `exit code ${run.exitCode}`
      ? run.reason
      : run.exitCode !== null && run.exitCode !== 0
        ? `exit code ${run.exitCode}`
        : "";
  return h(
    "li",
    { class: "row" },
    mark(run.outcome ?? run.state),
    h("span", { class: "name" }, missionLink(run.mission)),
    h(
      "span",
      { class: "number" },
      h("span", { class: "quiet" }, "run "),
      run.run,
      h("span", { class: "quiet" }, ` · ${span(took(run))}`),
    ),
    h("span", { class: "note", dir: "auto" }, time(run.endedAt ?? run.startedAt), why === "" ? "" : ` · ${why}`),
    h("span", { class: "acts" }, retry && run.fate === "retire" ? buttons(run.mission, { state: "gone" }) : null),
  );
}

/** A list of facts: names and what they are; null ones are left out. */
export function facts(pairs) {
  const there = pairs.filter(([, what]) => what !== null && what !== undefined && what !== "");
  return h(
    "dl",
    { class: "facts" },
    there.map(([name, what]) => h("div", null, h("dt", null, name), h("dd", { dir: "auto" }, what))),
  );
}

const MOST_SHOWN = 100_000;

/** A text of many lines, as it is; of a very long one the beginning, for a browser is busy for seconds with all of it. */
export function block(label, text, whole) {
  const made = h("pre", { tabindex: "0", role: "region", "aria-label": label, dir: "auto" });
  made.append(document.createTextNode(lines(text.slice(0, MOST_SHOWN))));
  const left = text.length - MOST_SHOWN;
  if (left <= 0) return [made];
  return [made, h("p", { class: "quiet" }, `${count(left, "character is", "characters are")} left out: ${whole}`)];
}

/** Show one of two: nothing of it, or the list. */
export function listOr(body, rows, items, keyOf, empty) {
  if (items.length === 0) {
    rows.there = new Map();
    put(body, h("p", { class: "quiet" }, empty));
    return;
  }
  if (rows.parent.parentNode !== body) put(body, rows.parent);
  rows.show(items, keyOf);
}
