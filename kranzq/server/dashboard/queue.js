// All missions that wait, run, are parked or quarantined; with what can be done about each.

import { h, put, Rows } from "./dom.js";
import { entryRow, listOr, runRow, section, waitingFor } from "./parts.js";
import { shared } from "./store.js";
import { count } from "./words.js";

const MOST = 1000;
const KINDS = [
  ["all", "All"],
  ["claimed", "Running"],
  ["queued", "Queued"],
  ["waiting", "Waiting"],
  ["parked", "Parked"],
  ["inbox", "Inbox"],
];

export function mount(root) {
  const { missions, ended } = shared;
  const filter = h("input", {
    type: "search",
    id: "filter",
    placeholder: "name or reason",
    autocomplete: "off",
    spellcheck: "false",
  });
  const kind = h(
    "select",
    { id: "kind" },
    KINDS.map(([value, word]) => h("option", { value }, word)),
  );
  const told = h("p", { class: "quiet", id: "told" });
  const list = section("Missions in the queue");
  const aside = section("Files that are no entries");
  const past = section("Ended lately");
  const rows = new Rows(h("ul", { class: "rows", id: "missions" }), entryRow);
  const others = new Rows(h("ul", { class: "rows" }), (one) =>
    h(
      "li",
      { class: "row" },
      h("span", { class: "mark bad" }, one.state),
      h("span", { class: "name", dir: "auto" }, one.file),
      h("span", { class: "note wide", dir: "auto" }, one.why),
    ),
  );
  const runs = new Rows(h("ul", { class: "rows" }), (run) => runRow(run));
  put(
    root,
    h("h1", null, "Queue"),
    h(
      "form",
      { class: "tools", role: "search", onsubmit: (event) => event.preventDefault() },
      h("span", null, h("label", { for: "filter" }, "Filter"), filter),
      h("span", null, h("label", { for: "kind" }, "Show"), kind),
      told,
    ),
    list.root,
    aside.root,
    past.root,
  );

  const show = () => {
    if (missions.value === null) return put(list.body, waitingFor(missions));
    const words = filter.value.toLowerCase();
    const fits = (one) =>
      (kind.value === "all" || one.state === kind.value) &&
      `${one.mission} ${one.note} ${one.waitingFor.join(" ")}`.toLowerCase().includes(words);
    const found = missions.value.entries.filter(fits);
    const all = missions.value.entries.length;
    const cut = found.length > MOST ? `; the first ${MOST.toLocaleString("en")} are shown` : "";
    put(
      told,
      found.length === all
        ? `${count(all, "mission", "missions")}${cut}`
        : `${found.length.toLocaleString("en")} of ${count(all, "mission", "missions")}${cut}`,
    );
    listOr(
      list.body,
      rows,
      found.slice(0, MOST),
      (one) => `${one.mission} ${one.seq}`,
      all === 0 ? "The queue is empty. A mission is approved with: kranzq enqueue" : "Nothing fits the filter.",
    );
    const none = [
      ...missions.value.quarantined.map((one) => ({ state: "quarantined", ...one })),
      ...missions.value.bad.map((one) => ({ state: "no entry", ...one })),
    ];
    aside.root.hidden = none.length === 0;
    others.parent.parentNode === aside.body || put(aside.body, others.parent);
    others.show(none, (one) => `${one.state} ${one.file}`);
  };
  filter.addEventListener("input", show);
  kind.addEventListener("change", show);
  aside.root.hidden = true;
  const ends = [
    missions.use(show),
    ended.use(() => {
      if (ended.value === null) return put(past.body, waitingFor(ended));
      listOr(
        past.body,
        runs,
        ended.value.runs.filter((one) => one.endedAt !== null).reverse(),
        (one) => `${one.mission} ${one.run}`,
        "Nothing has run yet.",
      );
    }),
  ];
  return () => ends.forEach((end) => end());
}
