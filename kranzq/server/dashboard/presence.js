// Who says to work where. A note for others: it holds nobody up, and expires.

import { h, put } from "./dom.js";
import { time, waitingFor } from "./parts.js";
import { shared } from "./store.js";
import { count, now, span } from "./words.js";

const place = (one) =>
  [
    one.branch === null ? null : ["branch ", one.branch],
    one.path === null ? null : one.path,
    one.topic === null ? null : ["topic ", one.topic],
  ].filter((part) => part !== null);

function row(one) {
  const where = place(one);
  return h(
    "li",
    { class: "row who" },
    h("span", { class: "name", dir: "auto" }, one.agent),
    h(
      "span",
      { class: "where", dir: "auto" },
      where.length === 0 ? "all of it" : where.flatMap((part, number) => (number === 0 ? [part] : [" · ", part])),
    ),
    h("span", { class: "note", dir: "auto" }, one.note),
    h(
      "span",
      { class: "number" },
      h("span", { class: "quiet" }, "since "),
      time(one.created_at),
      h("span", { class: "quiet" }, `, ${span(one.expires_at - now())} left`),
    ),
  );
}

export function mount(root) {
  const { presence } = shared;
  const body = h("div");
  put(
    root,
    h("h1", null, "Presence"),
    h("p", { class: "quiet" }, "Who says to work where. It holds nobody up, and expires by itself."),
    body,
  );
  const show = () => {
    if (presence.value === null) return put(body, waitingFor(presence));
    const live = presence.value.claims.filter((one) => one.expires_at > now());
    const repos = Map.groupBy(live, (one) => one.repo ?? "Anywhere");
    put(
      body,
      live.length === 0
        ? h("p", { class: "quiet" }, "Nobody says so at the moment. It is said with: kranzq presence claim")
        : null,
      [...repos]
        .sort(([a], [b]) => a.localeCompare(b))
        .map(([repo, claims], number) => {
          const agents = new Set(claims.map((one) => one.agent_uid || one.agent)).size;
          const id = `repo-${number}`;
          return h(
            "section",
            { class: "panel", "aria-labelledby": id },
            h("h2", { id, dir: "auto" }, repo, h("small", null, ` ${count(agents, "agent", "agents")}`)),
            h("ul", { class: "rows" }, [...claims].sort((a, b) => `${a.path}`.localeCompare(`${b.path}`)).map(row)),
          );
        }),
    );
  };
  const again = setInterval(show, 30_000);
  const end = presence.use(show);
  return () => {
    clearInterval(again);
    end();
  };
}
