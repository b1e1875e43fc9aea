// Questions before something is done, and the list of keys. A dialog of the browser's own keeps the focus inside.

import { h } from "./dom.js";

const KEYS = "kranzq-keys";

/** Whether single keys do something: who dictates or types by accident may switch them off. */
export function keysAreOn() {
  try {
    return localStorage.getItem(KEYS) !== "off";
  } catch {
    return true;
  }
}

function open(title, children, buttons) {
  const before = document.activeElement;
  return new Promise((answer) => {
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "asked" }, title),
      ...children,
      h("p", { class: "buttons" }, ...buttons),
    );
    const dialog = h("dialog", { "aria-labelledby": "asked" }, form);
    dialog.addEventListener("close", () => {
      // the browser has put the focus back already; who has gone on meanwhile is not called back
      const lost = dialog.contains(document.activeElement) || document.activeElement === document.body;
      dialog.remove();
      if (lost && before instanceof HTMLElement && before.isConnected) before.focus();
      answer(dialog.returnValue === "yes" ? form : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

const yes = (word, kind) => h("button", { type: "submit", value: "yes", class: kind }, word);
const no = (word) =>
  h("button", { type: "button", onclick: (event) => event.currentTarget.closest("dialog").close("no") }, word);

async function askText(title, about, label, word, kind, keep) {
  const form = await open(
    title,
    [
      h("p", null, about),
      h("label", { for: "why" }, label),
      h("input", { id: "why", name: "why", maxlength: "500", autocomplete: "off" }),
    ],
    [yes(word, kind), no(keep)],
  );
  return form === null ? null : form.elements.why.value.trim();
}

/** The reason, perhaps blank; null: not after all. */
export const askCancel = (what, about) =>
  askText(`Cancel ${what}?`, about, "Reason (kept with the end)", "Yes, cancel it", "danger", "Keep it");

/** The same for parking. */
export const askPark = (mission) =>
  askText(`Park ${mission}?`, "It does not run until it is unparked.", "Reason", "Park it", "main", "Leave it");

/** A priority from 0 to 255; null: not after all. */
export async function askPriority(mission, now) {
  const input = h("input", {
    id: "priority",
    name: "priority",
    type: "number",
    min: "0",
    max: "255",
    step: "1",
    required: true,
    value: String(now),
  });
  const form = await open(
    `Priority of ${mission}`,
    [
      h("p", null, "Lower is earlier. It goes behind those that have the same."),
      h("label", { for: "priority" }, "0 to 255"),
      input,
    ],
    [yes("Set it", "main"), no("Leave it")],
  );
  return form === null ? null : Number(form.elements.priority.value);
}

const LIST = [
  ["1 … 5", "Overview, queue, work items, presence, trends"],
  ["j  k", "The next row, the one before"],
  ["Enter", "Open it"],
  ["Tab", "To its buttons"],
  ["/", "To the filter"],
  ["Esc", "Close a question without an answer"],
  ["?", "This list"],
];

/** The keys, and whether single ones are on. */
export function helpDialog() {
  const on = h("input", { type: "checkbox", id: "single", checked: keysAreOn() });
  on.addEventListener("change", () => {
    try {
      localStorage.setItem(KEYS, on.checked ? "on" : "off");
    } catch {
      // it lasts as long as the page, then
    }
  });
  const rows = LIST.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)]);
  void open(
    "Keyboard",
    [h("dl", { class: "keys" }, ...rows), h("p", null, on, h("label", { for: "single" }, " Single keys do something"))],
    [yes("Close", "main")],
  );
}
