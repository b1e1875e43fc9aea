// Axes: where round numbers and round times lie.

const S = 1000,
  MIN = 60 * S,
  H = 60 * MIN,
  D = 24 * H;
const STEPS = [
  S,
  2 * S,
  5 * S,
  10 * S,
  30 * S,
  MIN,
  2 * MIN,
  5 * MIN,
  10 * MIN,
  30 * MIN,
  H,
  2 * H,
  3 * H,
  6 * H,
  12 * H,
  D,
  2 * D,
  7 * D,
  14 * D,
  30 * D,
  90 * D,
  365 * D,
];
const two = (number) => String(number).padStart(2, "0");

/** Round moments between two, about `most` of them, in local time, each with its word. */
export function timeTicks(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? STEPS.at(-1);
  const zone = new Date(from).getTimezoneOffset() * MIN;
  const ticks = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) {
    const then = new Date(at);
    const day = `${two(then.getMonth() + 1)}-${two(then.getDate())}`;
    const time = `${two(then.getHours())}:${two(then.getMinutes())}`;
    const isMidnight = then.getHours() === 0 && then.getMinutes() === 0 && then.getSeconds() === 0;
    ticks.push([at, step >= D || isMidnight ? day : step < MIN ? `${time}:${two(then.getSeconds())}` : time]);
  }
  return ticks;
}

/** Round whole numbers from 0 to at least `most`. */
export function wholeTicks(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  const step = Math.max(
    1,
    [1, 2, 5, 10].map((one) => (one * power) / 5).find((one) => one >= 1 && most / one <= 5) ?? power * 2,
  );
  const ticks = [];
  for (let at = 0; at < Math.max(1, most) + step; at += step) ticks.push([at, at.toLocaleString("en")]);
  return ticks;
}

const SPANS = [
  [0.1 * S, "0.1 s"],
  [S, "1 s"],
  [10 * S, "10 s"],
  [MIN, "1 min"],
  [10 * MIN, "10 min"],
  [H, "1 h"],
  [10 * H, "10 h"],
  [4 * D, "4 d"],
  [40 * D, "40 d"],
  [400 * D, "400 d"],
];

/** Spans for an axis on which each step is about ten times the last one. */
export function spanTicks(least, most) {
  const first = Math.max(
    0,
    SPANS.findLastIndex(([at]) => at <= least),
  );
  const last = SPANS.findIndex(([at]) => at >= most);
  return SPANS.slice(first, Math.max(last < 0 ? SPANS.length : last + 1, first + 2));
}
