// The items of the work queue, newest change first, page by page.

import { ask } from "./api.js";
import { cancelItem, tellFault } from "./actions.js";
import { h, put, Rows } from "./dom.js";
import { itemLink, listOr, mark, section, time, waitingFor } from "./parts.js";
import { shared, Source } from "./store.js";

const STATES = ["open", "delayed", "claimed", "lapsed", "done", "failed", "cancelled"];

function itemRow(one) {
  const to =
    one.target_agent !== ""
      ? `for ${one.target_agent}`
      : one.target_group !== ""
        ? `for group ${one.target_group}`
        : "for anybody";
  const held = one.claimed_by === "" ? "" : ` · ${one.state === "claimed" ? "with" : "last with"} ${one.claimed_by}`;
  return h(
    "li",
    { class: "row item" },
    mark(one.state, one.state),
    h("span", { class: "name" }, itemLink(one)),
    h("span", { class: "number" }, h("span", { class: "quiet" }, "attempt "), `${one.attempts} of ${one.max_attempts}`),
    h(
      "span",
      { class: "note", dir: "auto" },
      one.kind === "" ? "" : `${one.kind} · `,
      to,
      held,
      " · ",
      time(one.updated_at),
    ),
    h("span", { class: "acts" }, cancelItem(one)),
  );
}

export function mount(root, wanted) {
  const state = STATES.includes(wanted) ? wanted : "";
  const query = (cursor) =>
    `/v1/work?limit=50${state === "" ? "" : `&state=${state}`}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
  const first = new Source(
    () => ask("GET", query("")),
    (kind) => kind === "item",
    30_000,
  );
  const { stats } = shared;
  let older = [];
  let cursor = null;
  const list = section("Items");
  const rows = new Rows(h("ul", { class: "rows", id: "items" }), itemRow);
  const choice = h("ul", { class: "counts", id: "states" });
  const more = h("button", { type: "button" }, "Show older ones");
  more.hidden = true;
  put(root, h("h1", null, "Work items"), choice, list.root, h("p", null, more));

  const show = () => {
    if (first.value === null) return put(list.body, waitingFor(first));
    const newest = new Set(first.value.items.map((one) => one.id));
    const all = [...first.value.items, ...older.filter((one) => !newest.has(one.id))];
    listOr(
      list.body,
      rows,
      all,
      (one) => one.id,
      state === "" ? "The work queue is empty. An item is added with: kranzq work enqueue" : `No item is ${state}.`,
    );
    more.hidden = (older.length > 0 ? cursor : first.value.cursor) === null;
  };
  more.addEventListener("click", async () => {
    try {
      const page = await ask("GET", query(older.length > 0 ? cursor : first.value.cursor));
      older = [...older, ...page.items];
      cursor = page.cursor;
      show();
    } catch (fault) {
      tellFault(fault);
    }
  });
  const counts = () => {
    const link = (name, word, number) =>
      h(
        "li",
        null,
        h(
          "a",
          { href: name === "" ? "#/work" : `#/work/${name}`, "aria-current": name === state ? "true" : null },
          number === null ? null : h("strong", null, number.toLocaleString("en")),
          ` ${word}`,
        ),
      );
    put(
      choice,
      link("", "all", null),
      STATES.map((name) => link(name, name, stats.value?.states[name] ?? 0)),
    );
  };
  const ends = [first.use(show), stats.use(counts)];
  return () => ends.forEach((end) => end());
}
