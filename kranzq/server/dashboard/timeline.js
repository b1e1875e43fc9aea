// A mission's life as a picture: for each entry when it was enqueued and how long it waited, for each run when it was
// claimed and how long it ran. The same stands below as text.

import { timeTicks } from "./axes.js";
import { h, svg } from "./dom.js";
import { look, at, clock, now, span } from "./words.js";

const ROW = 30,
  TOP = 8,
  LEFT = 64,
  RIGHT = 12,
  AXIS = 34,
  LEAST = 3;
const MOST_ROWS = 30;

/** One row for each run, and one for what waits now: the pieces of time in it. */
function rowsOf(runs, waiting) {
  let before = null;
  const rows = runs.map((run) => {
    const enqueued = at(run.enqueuedAt),
      claimed = at(run.claimedAt),
      started = at(run.startedAt);
    const ended = at(run.endedAt);
    const end = ended ?? now();
    const from = before === null || enqueued === null || enqueued > before ? enqueued : before;
    const pieces = [];
    if (from !== null && claimed !== null && claimed > from)
      pieces.push(["waited", from, claimed, `waited ${span(claimed - from)}`]);
    if (claimed !== null) pieces.push(["claimed", claimed, started ?? end, `claimed at ${clock(claimed)}`]);
    if (started !== null)
      pieces.push([
        `ran ${look(run.outcome ?? "running")}`,
        started,
        end,
        `${ended === null ? "runs for" : "ran"} ${span(end - started)}`,
      ]);
    const isNew = enqueued !== null && (before === null || enqueued > before);
    if (ended !== null) before = ended;
    return { word: `run ${run.run}`, enqueued: isNew ? enqueued : null, ended, outcome: run.outcome, pieces };
  });
  for (const one of waiting.filter((each) => each.state !== "claimed")) {
    const enqueued = at(one.enqueuedAt);
    const from = before !== null && (enqueued === null || enqueued < before) ? before : enqueued;
    if (from === null) continue;
    rows.push({
      word: one.state,
      enqueued: from === enqueued ? enqueued : null,
      ended: null,
      outcome: null,
      due: at(one.due),
      pieces: [[one.state === "parked" ? "parked" : "waited", from, now(), `${one.state} for ${span(now() - from)}`]],
    });
  }
  return rows;
}

function sentence(row) {
  const parts = row.enqueued === null ? [] : [`enqueued at ${clock(row.enqueued)}`];
  parts.push(...row.pieces.map(([, , , text]) => text));
  if (row.ended !== null) parts.push(`ended at ${clock(row.ended)}: ${row.outcome ?? "without an outcome"}`);
  if (row.due) parts.push(`due at ${clock(row.due)}`);
  return `${row.word}: ${parts.join(", ")}`;
}

export function timeline(runs, waiting, room) {
  const all = rowsOf(runs, waiting);
  const rows = all.slice(-MOST_ROWS);
  const moments = rows
    .flatMap((row) => [row.enqueued, row.ended, row.due, ...row.pieces.flatMap(([, from, to]) => [from, to])])
    .filter((one) => one !== null && one !== undefined);
  if (moments.length === 0)
    return h("p", { class: "quiet" }, "Nothing is known of when it was enqueued, and it has not run.");
  const width = Math.max(280, room),
    height = TOP + rows.length * ROW + AXIS;
  const first = Math.min(...moments);
  const last = Math.max(...moments, first + 1000);
  const x = (moment) => LEFT + ((moment - first) / (last - first)) * (width - LEFT - RIGHT);
  const base = TOP + rows.length * ROW;
  const ticks = timeTicks(first, last, Math.max(2, Math.floor((width - LEFT) / 90)));
  const parts = [
    ...ticks.map(([moment, word]) => [
      svg("line", { class: "grid", x1: x(moment), x2: x(moment), y1: TOP, y2: base + 4 }),
      svg("text", { class: "tick", x: x(moment), y: base + 18, "text-anchor": "middle" }, word),
    ]),
    svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: base, y2: base }),
  ];
  rows.forEach((row, number) => {
    const y = TOP + number * ROW;
    const bars = row.pieces.map(([kind, from, to]) => {
      const wide = Math.max(LEAST, x(to) - x(from));
      const thick = kind === "waited" || kind === "parked" ? 6 : kind === "claimed" ? 12 : 16;
      return svg("rect", {
        class: `piece ${kind}`,
        x: Math.min(x(from), width - RIGHT - LEAST),
        y: y + (ROW - thick) / 2,
        width: wide,
        height: thick,
        rx: 2,
      });
    });
    const mid = y + ROW / 2;
    const marks = [];
    if (row.enqueued !== null)
      marks.push(svg("path", { class: "moment", d: `M${x(row.enqueued)} ${mid - 7}l5 7l-5 7l-5 -7z` }));
    if (row.ended !== null)
      marks.push(
        svg("line", {
          class: `end ${look(row.outcome)}`,
          x1: x(row.ended),
          x2: x(row.ended),
          y1: mid - 11,
          y2: mid + 11,
        }),
      );
    if (row.due) marks.push(svg("circle", { class: "moment due", cx: x(row.due), cy: mid, r: 5 }));
    parts.push(
      svg(
        "g",
        null,
        svg("title", null, sentence(row)),
        svg("text", { class: "tick", x: LEFT - 8, y: mid + 4, "text-anchor": "end" }, row.word),
        bars,
        marks,
      ),
    );
  });
  const picture = svg(
    "svg",
    {
      class: "chart",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Timeline. ${rows.map(sentence).join(". ")}.`,
    },
    parts,
  );
  const key = [
    ["diamond", "enqueued"],
    ["waited", "waited"],
    ["claimed", "claimed"],
    ["ran run", "runs"],
    ["ran good", "succeeded"],
    ["ran bad", "failed or interrupted"],
    ["parked", "parked"],
    ["due", "due"],
  ];
  const there = (kind) =>
    kind === "diamond"
      ? rows.some((row) => row.enqueued !== null)
      : kind === "due"
        ? rows.some((row) => row.due)
        : rows.some((row) => row.pieces.some(([one]) => one === kind));
  return [
    picture,
    h(
      "ul",
      { class: "key", "aria-hidden": "true" },
      key
        .filter(([kind]) => there(kind))
        .map(([kind, word]) => h("li", null, h("span", { class: `swatch ${kind}` }), word)),
    ),
    h(
      "ul",
      { class: "plain said" },
      rows.map((row) => h("li", null, sentence(row))),
    ),
    all.length > rows.length ? h("p", { class: "quiet" }, `The last ${MOST_ROWS} of ${all.length} are drawn.`) : null,
  ];
}
