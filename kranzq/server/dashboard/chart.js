// Plots: an axis of time below, an axis with its unit at the side, and bars or points between them.

import { spanTicks, timeTicks, wholeTicks } from "./axes.js";
import { svg } from "./dom.js";
import { clock, span } from "./words.js";

const HEIGHT = 190,
  LEFT = 52,
  RIGHT = 10,
  TOP = 24,
  BOTTOM = 26;
const LEAST_MS = 50;

function frame({ width, from, to, unit }, ticks, y) {
  const wide = Math.max(260, width);
  const x = (moment) => LEFT + ((moment - from) / (to - from)) * (wide - LEFT - RIGHT);
  const base = HEIGHT - BOTTOM;
  const made = svg(
    "svg",
    { class: "chart", width: wide, height: HEIGHT, viewBox: `0 0 ${wide} ${HEIGHT}`, role: "img" },
    svg("text", { class: "unit", x: 4, y: 14 }, unit),
    ticks.map(([at, word]) => [
      svg("line", { class: "grid", x1: LEFT, x2: wide - RIGHT, y1: y(at), y2: y(at) }),
      svg("text", { class: "tick", x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, word),
    ]),
    timeTicks(from, to, Math.max(3, Math.floor(wide / 80))).map(([moment, word]) => [
      svg("line", { class: "axis", x1: x(moment), x2: x(moment), y1: base, y2: base + 4 }),
      svg(
        "text",
        { class: "tick", x: x(moment), y: base + 18, "text-anchor": moment > to - (to - from) / 12 ? "end" : "middle" },
        word,
      ),
    ]),
    svg("line", { class: "axis", x1: LEFT, x2: wide - RIGHT, y1: base, y2: base }),
  );
  return { made, x };
}

/** Bars of pieces: `slots` are `[from, [[kind, number], …]]`. */
export function bars(what) {
  const most =
    what.most ?? Math.max(1, ...what.slots.map(([, parts]) => parts.reduce((sum, [, number]) => sum + number, 0)));
  const ticks = wholeTicks(most).filter(([at]) => what.most === undefined || at <= most);
  const top = ticks.at(-1)[0];
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const { made, x } = frame(what, ticks, y);
  for (const [from, parts] of what.slots) {
    let below = 0;
    const said = parts
      .filter(([, number]) => number > 0)
      .map(
        ([kind, number]) =>
          `${Math.round(number)} ${{ good: "succeeded", bad: "failed", rest: "cancelled or deferred" }[kind]}`,
      );
    const group = svg("g", null, svg("title", null, `${clock(from)}: ${said.join(", ")}`));
    for (const [kind, number] of parts) {
      if (number === 0) continue;
      const wide = Math.max(2, x(from + what.bucket) - x(from) - 2);
      group.append(
        svg("rect", {
          class: `bar ${kind}`,
          x: x(from) + 1,
          width: wide,
          y: y(below + number),
          height: Math.max(1, y(below) - y(below + number)),
        }),
      );
      below += number;
    }
    if (below > 0) made.append(group);
  }
  return made;
}

/** One point for each `[moment, span, isBad]`, on an axis whose steps grow tenfold. Null where there are none. */
export function points(what) {
  const values = what.values
    .filter(([, value]) => value !== null)
    .map(([at, value, isBad]) => [at, Math.max(LEAST_MS, value), isBad === true]);
  if (values.length === 0) return null;
  const spans = values.map(([, value]) => value);
  const ticks = spanTicks(Math.min(...spans), Math.max(...spans));
  const low = Math.log(Math.min(ticks[0][0], ...spans)),
    high = Math.log(Math.max(ticks.at(-1)[0], ...spans));
  const y = (value) => HEIGHT - BOTTOM - ((Math.log(value) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const { made, x } = frame({ ...what, unit: `${what.unit} (log scale)` }, ticks, y);
  for (const [at, value, isBad] of values) {
    const place = isBad ? { d: `M${x(at) - 4} ${y(value) - 4}l8 8m0 -8l-8 8` } : { cx: x(at), cy: y(value), r: 3 };
    made.append(
      svg(
        isBad ? "path" : "circle",
        { class: isBad ? "point bad" : "point", ...place },
        svg("title", null, `${clock(at)}: ${span(value)}${isBad ? ", did not succeed" : ""}`),
      ),
    );
  }
  return made;
}
