// One item of the work queue, with every claim that it has had.

import { ask } from "./api.js";
import { cancelItem } from "./actions.js";
import { h, put } from "./dom.js";
import { block, facts, mark, section, time, waitingFor } from "./parts.js";
import { Source } from "./store.js";
import { at, span } from "./words.js";

const PLAIN = ["Attempt", "Holder", "Claimed", "Ended", "Lasted", "How", "Why"];

function history(attempts) {
  if (attempts.length === 0) return h("p", { class: "quiet" }, "Nobody has claimed it yet.");
  const cells = (one) => [
    one.attempt,
    one.holder,
    time(one.claimed_at),
    time(one.ended_at),
    at(one.ended_at) === null ? "–" : span(at(one.ended_at) - at(one.claimed_at)),
    one.ended === "" ? "goes on" : one.ended,
    one.why,
  ];
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attempts" },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          PLAIN.map((word) => h("th", { scope: "col" }, word)),
        ),
      ),
      h(
        "tbody",
        null,
        [...attempts].reverse().map((one) =>
          h(
            "tr",
            null,
            cells(one).map((cell) => h("td", { dir: "auto" }, cell)),
          ),
        ),
      ),
    ),
  );
}

export function mount(root, id) {
  const ours = (kind, data) => kind === "item" && data.id === id;
  const path = `/v1/work/${encodeURIComponent(id)}`;
  const one = new Source(() => ask("GET", path), ours, 30_000);
  const attempts = new Source(() => ask("GET", `${path}/attempts`), ours, 30_000);
  const title = h("h1", { dir: "auto" }, "Item");
  const head = h("p", { class: "headline" });
  const acts = h("p", { class: "acts" });
  const parts = Object.fromEntries(["Facts", "Attempts", "Payload", "Result"].map((word) => [word, section(word)]));
  put(
    root,
    h("div", { class: "head" }, title, head, acts),
    Object.values(parts).map((part) => part.root),
  );
  const told = {};
  const show = () => {
    if (one.value === null) return put(head, waitingFor(one));
    const item = one.value;
    put(title, document.createTextNode(""), h("span", null, item.title));
    put(head, mark(item.state, item.state), ` attempt ${item.attempts} of ${item.max_attempts}`);
    put(acts, cancelItem(item));
    put(
      parts.Facts.body,
      facts([
        ["Id", h("code", null, item.id)],
        ["Kind", item.kind],
        ["For agent", item.target_agent],
        ["For group", item.target_group],
        ["Priority", `${item.priority} (higher is earlier)`],
        ["Holder", item.claimed_by],
        ["Lease until", item.claim_expires === null ? null : time(item.claim_expires)],
        ["Not before", item.not_before === null ? null : time(item.not_before)],
        ["Created", time(item.created_at)],
        ["By", item.created_by],
        ["Changed", time(item.updated_at)],
        ["Declined", item.declined === 0 ? null : item.declined],
      ]),
    );
    parts.Result.root.hidden = item.result === "";
    for (const [word, text] of [
      ["Payload", item.payload],
      ["Result", item.result],
    ]) {
      if (told[word] === text) continue; // what is selected or scrolled to stays so
      told[word] = text;
      put(parts[word].body, block(word, text, `kranzq work show ${id}`));
    }
  };
  const ends = [
    one.use(show),
    attempts.use(() =>
      put(parts.Attempts.body, attempts.value === null ? waitingFor(attempts) : history(attempts.value.attempts)),
    ),
  ];
  return () => ends.forEach((end) => end());
}
