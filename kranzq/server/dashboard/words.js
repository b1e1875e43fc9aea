// How times, spans and states are said.

let ahead = 0;

/** Learn the server's clock from an answer: elapsed times count by it, whatever this machine's clock says. */
export function learnClock(date) {
  const told = Date.parse(date ?? "");
  if (!Number.isNaN(told)) ahead = Math.abs(told - Date.now()) > 2000 ? told - Date.now() : 0;
}

/** Now by the server's clock, in milliseconds. */
export const now = () => Date.now() + ahead;

/** Milliseconds of a time in JSON: RFC 3339, or a number of milliseconds already; null for none. */
export function at(value) {
  if (value === null || value === undefined || value === "") return null;
  const found = typeof value === "number" ? value : Date.parse(value);
  return Number.isNaN(found) ? null : found;
}

const two = (number) => String(number).padStart(2, "0");

/** A moment in local time: the time of day, with the day if it is not today's. */
export function clock(ms) {
  if (ms === null) return "–";
  const then = new Date(ms);
  const day = `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`;
  const time = `${two(then.getHours())}:${two(then.getMinutes())}:${two(then.getSeconds())}`;
  return then.toDateString() === new Date(now()).toDateString() ? time : `${day} ${time}`;
}

const UNITS = [
  [86_400_000, "d", 3_600_000, "h"],
  [3_600_000, "h", 60_000, "min"],
  [60_000, "min", 1000, "s"],
];

/** A span in at most two units: `1 h 04 min`, `12 s`, `2.3 s`, `40 ms`. */
export function span(ms) {
  if (ms === null || Number.isNaN(ms)) return "–";
  const left = Math.max(0, ms);
  for (const [size, name, small, smallName] of UNITS) {
    if (left >= size)
      return `${Math.floor(left / size)} ${name} ${two(Math.floor((left % size) / small))} ${smallName}`;
  }
  if (left < 1000) return `${Math.round(left)} ms`;
  return left < 9950 ? `${(left / 1000).toFixed(1)} s` : `${Math.floor(left / 1000)} s`;
}

/** The same in whole seconds, for what goes on. */
export const seconds = (ms) => (ms < 1000 ? "0 s" : span(Math.floor(ms / 1000) * 1000).replace(/\.0 s$/, " s"));

/** What a state looks like: the class of its mark. The word itself always stands beside it. */
const LOOKS = {
  claimed: "run",
  running: "run",
  starting: "run",
  claiming: "run",
  queued: "wait",
  waiting: "wait",
  inbox: "wait",
  open: "wait",
  delayed: "wait",
  parked: "hold",
  quarantined: "bad",
  lapsed: "hold",
  unknown: "bad",
  gone: "done",
  succeeded: "good",
  done: "good",
  failed: "bad",
  "timed out": "bad",
  interrupted: "bad",
  "not started": "bad",
  cancelled: "done",
  deferred: "wait",
};

export const look = (state) => LOOKS[state] ?? "done";

/** What became of an entry after a run, for people. */
const FATES = {
  retire: "done with",
  return: "put back in its place",
  wait: "waits to be tried again",
  rotate: "went behind the others",
  park: "parked",
};

export const fateWord = (fate) => (fate === null ? null : (FATES[fate] ?? fate));

/** A mission's state for people: one that is claimed runs, one that is gone has ended. */
export const stateWord = (state) => ({ claimed: "running", gone: "ended" })[state] ?? state;

export const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
