// What a person does here: ask first where it cannot be undone, do it, say what came of it, look again.

import { ask, missionPath } from "./api.js";
import { askCancel, askPark, askPriority } from "./dialogs.js";
import { h, put } from "./dom.js";
import { touchAll } from "./store.js";
import { stateWord } from "./words.js";

/** Who is signed in, as /v1/agent says it. */
export const me = { name: "", operator: false, scopes: [] };

export const may = (scope) =>
  me.operator || me.scopes.includes("operate") || (scope === "work" && me.scopes.includes("work"));

/** One sentence for everybody, also for those who listen to the page. */
export function say(text) {
  put(document.getElementById("said"), text);
}

export function tellFault(fault) {
  const box = document.getElementById("faults");
  const one = h(
    "div",
    { class: "toast" },
    h("p", null, h("strong", null, fault.message), " ", fault.hint ?? ""),
    h("button", { type: "button", "aria-label": "Close this message", onclick: () => one.remove() }, "Close"),
  );
  put(box, one);
}

async function doing(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  try {
    const said = await work();
    if (said === null) return;
    put(document.getElementById("faults"));
    say(said);
    touchAll();
  } catch (fault) {
    tellFault(fault);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

const moved = (one) => {
  const note = one.note === "" ? "" : ` (${one.note})`;
  return `${one.mission} is ${stateWord(one.state)}, priority ${one.priority}${one.changed ? "" : "; nothing was changed"}${note}.`;
};
const ENDS = {
  removed: "is cancelled: its entry is removed",
  wished: "is asked to end",
  cancelled: "is cancelled",
  ended: "had ended already",
};

const DEEDS = {
  priority: [
    "Priority",
    async (mission, entry) => {
      const priority = await askPriority(mission, entry.priority);
      return priority === null ? null : moved(await ask("POST", missionPath(mission, "/edit"), { priority }));
    },
  ],
  park: [
    "Park",
    async (mission) => {
      const why = await askPark(mission);
      return why === null ? null : moved(await ask("POST", missionPath(mission, "/park"), { why }));
    },
  ],
  unpark: ["Unpark", async (mission) => moved(await ask("POST", missionPath(mission, "/unpark")))],
  now: ["Run now", async (mission) => moved(await ask("POST", missionPath(mission, "/edit"), { not_before: "now" }))],
  retry: ["Retry", async (mission) => moved(await ask("POST", missionPath(mission, "/retry")))],
  cancel: [
    "Cancel",
    async (mission, entry) => {
      const why = await askCancel(
        `mission ${mission}`,
        entry.state === "claimed"
          ? "It runs: whatever it has done so far stays as it is, and it is ended."
          : "Its entry is removed.",
      );
      if (why === null) return null;
      const done = await ask("POST", missionPath(mission, "/cancel"), { why });
      return `${done.mission} ${ENDS[done.result] ?? done.result}.`;
    },
  ],
};
const FITTING = {
  queued: ["priority", "park", "cancel"],
  waiting: ["now", "priority", "park", "cancel"],
  parked: ["unpark", "priority", "cancel"],
  claimed: ["cancel"],
  inbox: [],
  gone: ["retry"],
};

/** The buttons that fit a mission; none for whoever may only look. */
export function buttons(mission, entry) {
  if (!may("operate")) return [];
  const notYet = entry.state === "waiting" && entry.due === null; // others come first, whatever a button says
  const wanted = (FITTING[entry.state] ?? []).filter((deed) => deed !== "now" || !notYet);
  return wanted.map((deed) => {
    const [word, act] = DEEDS[deed];
    return h(
      "button",
      {
        type: "button",
        "data-act": deed,
        "aria-label": `${word} ${mission}`,
        class: deed === "cancel" ? "danger" : null,
        onclick: (event) => void doing(event.currentTarget, () => act(mission, entry)),
      },
      word,
    );
  });
}

/** The button that cancels a work item. */
export function cancelItem(one) {
  if (!may("work") || ["done", "failed", "cancelled"].includes(one.state)) return null;
  const act = async () => {
    const why = await askCancel(
      `item ${one.id}`,
      one.claimed_by === ""
        ? "Nobody gets it any more."
        : `${one.claimed_by} has it, and learns of it at its next call.`,
    );
    if (why === null) return null;
    await ask("DELETE", `/v1/work/${encodeURIComponent(one.id)}`, { reason: why });
    return `Item ${one.id} is cancelled.`;
  };
  return h(
    "button",
    {
      type: "button",
      class: "danger",
      "data-act": "cancel",
      "aria-label": `Cancel ${one.id}`,
      onclick: (event) => void doing(event.currentTarget, act),
    },
    "Cancel",
  );
}
