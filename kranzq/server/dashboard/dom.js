// Making elements. Texts of others reach the page through here alone, and become text nodes: never markup.

const SVG = "http://www.w3.org/2000/svg";
const MARKS =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\u{e0000}-\u{e007f}]/gu;
const COLOURS = /\u001b\[[0-9;:]*m/g;

function visible(mark) {
  const code = mark.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** A text in one line: what would move the cursor, hide or turn around what follows is made visible. */
export function shown(text) {
  return String(text ?? "")
    .replace(/[\n\t]/g, (mark) => (mark === "\n" ? "␊" : " "))
    .replace(MARKS, visible);
}

/** A text of several lines, such as a log: as `shown`, but lines stay lines, and colours are left out. */
export function lines(text) {
  return String(text ?? "")
    .replace(/\r\n/g, "\n")
    .replace(COLOURS, "")
    .replace(MARKS, visible);
}

function fill(made, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") made[name] = value;
    else if (name === "title" || name === "aria-label") made.setAttribute(name, shown(value));
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : document.createTextNode(shown(child)));
  }
  return made;
}

/** An element: `h("button", { type: "button", onclick: act }, "Park")`. Attributes are ours, children may be anybody's. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for a part of a picture. */
export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** Put these in the place of all that is there; a text is shown as a child of `h` is. */
export function put(parent, ...children) {
  parent.replaceChildren();
  fill(parent, null, children);
}

/** Rows by key: one whose data is the same stays the element that it is, so that focus and selection stay too. */
export class Rows {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.there = new Map();
  }

  show(items, keyOf) {
    const wanted = new Map();
    const focused = document.activeElement;
    const place = focused === null ? -1 : [...this.parent.children].findIndex((one) => one.contains(focused));
    let again = null;
    for (const item of items) {
      let key = keyOf(item);
      while (wanted.has(key)) key += "+";
      const data = JSON.stringify(item);
      const old = this.there.get(key);
      if (old !== undefined && old.data === data) {
        wanted.set(key, old);
        continue;
      }
      const node = this.make(item);
      if (old !== undefined && focused !== null && old.node.contains(focused)) {
        again = { node, act: focused.dataset.act ?? "" };
      }
      wanted.set(key, { data, node });
    }
    const nodes = [...wanted.values()].map((one) => one.node);
    const kept = new Set(nodes);
    for (const node of [...this.parent.children]) if (!kept.has(node)) node.remove();
    let here = this.parent.firstChild;
    for (const node of nodes) {
      if (node === here) here = here.nextSibling;
      else this.parent.insertBefore(node, here);
    }
    this.there = wanted;
    if (again !== null) {
      (again.node.querySelector(`[data-act="${again.act}"]`) ?? again.node.querySelector("a, button"))?.focus();
    } else if (place >= 0 && document.activeElement !== focused) {
      // moved, or gone together with its row: then the next one is where the eyes are
      if (this.parent.contains(focused)) focused.focus();
      else nodes[Math.min(place, nodes.length - 1)]?.querySelector("a, button")?.focus();
    }
  }
}
