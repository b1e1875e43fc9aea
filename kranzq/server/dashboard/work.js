// The items of the work queue, newest change first, page by page.

import { ask } from "./api.js";
import { cancelItem } from "./actions.js";
import { h, put, Rows } from "./dom.js";
import { itemLink, listOr, mark, section, time, waitingFor } from "./parts.js";
import { shared, Source } from "./store.js";

const EACH = 50;
const MOST = 500; // as many as the server tells at once
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
  let most = EACH; // all that is shown is asked again together, or it would not be of one moment
  const first = new Source(
    () => ask("GET", `/v1/work?limit=${most}${state === "" ? "" : `&state=${state}`}`),
    (kind) => kind === "item",
    30_000,
  );
  const { stats } = shared;
  const list = section("Items");
  const rows = new Rows(h("ul", { class: "rows", id: "items" }), itemRow);
  const choice = h("ul", { class: "counts", id: "states" });
  const more = h("button", { type: "button" }, "Show older ones");
  more.hidden = true;
  const told = h("span", { class: "quiet" });
  put(root, h("h1", null, "Work items"), choice, list.root, h("p", null, more, told));

  const show = () => {
    if (first.value === null) return put(list.body, waitingFor(first));
    listOr(
      list.body,
      rows,
      first.value.items,
      (one) => one.id,
      state === "" ? "The work queue is empty. An item is added with: kranzq work enqueue" : `No item is ${state}.`,
    );
    const isMore = first.value.cursor !== null;
    more.hidden = !isMore || most >= MOST;
    put(told, isMore && most >= MOST ? "What is older is listed by: kranzq work list" : "");
  };
  more.addEventListener("click", () => {
    most += EACH;
    first.touch(0);
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
