// How it went: how many runs ended, how long they waited and ran, and which failed; drawn from the newest runs.

import { ask } from "./api.js";
import { bars, points } from "./chart.js";
import { h, put } from "./dom.js";
import { section, waitingFor } from "./parts.js";
import { ofRuns, Source } from "./store.js";
import { at, clock, count, now, span } from "./words.js";

const H = 3_600_000,
  D = 24 * H;
const RANGES = [
  ["day", "24 hours", D, H, "hour"],
  ["week", "7 days", 7 * D, 6 * H, "6 hours"],
  ["month", "30 days", 30 * D, D, "day"],
];
const MOST = 1000;

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length === 0
    ? null
    : sorted.length % 2 === 1
      ? sorted[(sorted.length - 1) / 2]
      : (sorted[sorted.length / 2 - 1] + sorted[sorted.length / 2]) / 2;
}

const KEY = () =>
  h(
    "ul",
    { class: "key", "aria-hidden": "true" },
    [
      ["good", "succeeded"],
      ["rest", "cancelled or deferred"],
      ["bad", "did not succeed"],
    ].map(([kind, text]) => h("li", null, h("span", { class: `swatch ${kind}` }), text)),
  );

/** What is drawn of a run. The first run of an entry waited since it was enqueued; those after it since the one before. */
function measured(runs) {
  const before = new Map();
  return [...runs]
    .sort((a, b) => a.run - b.run)
    .map((run) => {
      const ended = before.get(run.mission) ?? null;
      const enqueued = at(run.enqueuedAt),
        claimed = at(run.claimedAt),
        started = at(run.startedAt),
        end = at(run.endedAt);
      const from = ended !== null && enqueued !== null && ended > enqueued ? ended : enqueued;
      if (end !== null) before.set(run.mission, end);
      return {
        end,
        outcome: run.outcome,
        isGood: run.outcome === "succeeded",
        isBad: ["failed", "timed out", "interrupted", "not started"].includes(run.outcome),
        wait: from !== null && claimed !== null && claimed >= from ? claimed - from : null,
        took: started !== null && end !== null && end >= started ? end - started : null,
      };
    })
    .filter((one) => one.end !== null);
}

function summary(values, what) {
  const found = values.filter((one) => one !== null);
  if (found.length === 0) return `Nothing is known of ${what}.`;
  const sorted = [...found].sort((a, b) => a - b);
  return `Half of them ${what} less than ${span(median(found))}, nine of ten less than ${span(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.9))])}.`;
}

export function mount(root, wanted) {
  const [name, word, length, bucket, each] = RANGES.find(([one]) => one === wanted) ?? RANGES[0];
  const source = new Source(() => ask("GET", `/v1/timeline?last=${MOST}`), ofRuns, 60_000);
  const links = RANGES.map(([one, text]) =>
    h("li", null, h("a", { href: `#/trends/${one}`, "aria-current": one === name ? "true" : null }, text)),
  );
  const told = h("p", { class: "quiet" });
  const parts = [["Throughput"], ["Failures"], ["Wait"], ["Duration"]].map(([title]) => section(title));
  put(
    root,
    h("h1", null, "Trends"),
    h("ul", { class: "counts" }, links),
    told,
    h(
      "div",
      { class: "columns even" },
      parts.map((part) => part.root),
    ),
  );
  const show = () => {
    if (source.value === null) return put(told, waitingFor(source));
    const to = Math.ceil(now() / bucket) * bucket,
      from = to - length;
    const all = measured(source.value.runs);
    const there = all.filter((one) => one.end >= from);
    const oldest = all.length === 0 ? null : Math.min(...all.map((one) => one.end));
    const cut =
      source.value.runs.length >= MOST && oldest > from
        ? ` Only the newest ${MOST.toLocaleString("en")} runs are read, back to ${clock(oldest)}: what is older is missing here.`
        : "";
    put(told, `${count(there.length, "run", "runs")} ended in the last ${word}.${cut}`);
    if (there.length === 0)
      return parts.forEach((part) => put(part.body, h("p", { class: "quiet" }, "Nothing has run in this time.")));
    const slots = Array.from({ length: length / bucket }, (_, at) => ({
      from: from + at * bucket,
      good: 0,
      bad: 0,
      rest: 0,
    }));
    for (const one of there)
      slots[Math.min(slots.length - 1, Math.floor((one.end - from) / bucket))][
        one.isGood ? "good" : one.isBad ? "bad" : "rest"
      ] += 1;
    const width = parts[0].body.clientWidth;
    const bad = there.filter((one) => one.isBad);
    const good = there.filter((one) => one.isGood).length;
    const kinds = [...Map.groupBy(bad, (one) => one.outcome)].map(([outcome, found]) => `${found.length} ${outcome}`);
    const frame = { width, from, to, bucket };
    const drawn = [
      [
        bars({
          ...frame,
          unit: `runs per ${each}`,
          slots: slots.map((one) => [
            one.from,
            [
              ["good", one.good],
              ["rest", one.rest],
              ["bad", one.bad],
            ],
          ]),
        }),
        `${good} succeeded, ${bad.length} did not${there.length > good + bad.length ? `, ${there.length - good - bad.length} cancelled or deferred` : ""}.`,
      ],
      [
        bars({
          ...frame,
          unit: `% of the runs per ${each}`,
          most: 100,
          slots: slots.map((one) => [
            one.from,
            [["bad", (100 * one.bad) / Math.max(1, one.good + one.bad + one.rest)]],
          ]),
        }),
        bad.length === 0
          ? "None failed."
          : `${bad.length} of ${there.length} (${Math.round((100 * bad.length) / there.length)} %): ${kinds.join(", ")}.`,
      ],
      [
        points({
          ...frame,
          unit: "until it was claimed",
          values: there.map((one) => [one.end, one.wait]),
        }),
        summary(
          there.map((one) => one.wait),
          "waited",
        ),
      ],
      [
        points({ ...frame, unit: "from start to end", values: there.map((one) => [one.end, one.took, one.isBad]) }),
        summary(
          there.map((one) => one.took),
          "ran",
        ),
      ],
    ];
    drawn.forEach(([picture, text], at) => {
      const label = `${parts[at].root.querySelector("h2").textContent}. ${text}`;
      picture?.setAttribute("aria-label", label);
      put(parts[at].body, h("figure", null, picture, at === 0 ? KEY() : null, h("figcaption", null, text)));
    });
  };
  addEventListener("resize", show);
  const end = source.use(show);
  return () => {
    removeEventListener("resize", show);
    end();
  };
}
