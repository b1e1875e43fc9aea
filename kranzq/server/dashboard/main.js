// The page: who is signed in, which view is shown, what is live, and the keys.

import { ask, signOut, whenSignedOut } from "./api.js";
import { h, put } from "./dom.js";
import { helpDialog, keysAreOn } from "./dialogs.js";
import { News } from "./news.js";
import { showSignIn } from "./signin.js";
import { forget, heard, shared } from "./store.js";
import { Stream } from "./stream.js";
import { clock } from "./words.js";
import { me, say, tellFault } from "./actions.js";
import * as overview from "./overview.js";
import * as queue from "./queue.js";
import * as mission from "./mission.js";
import * as work from "./work.js";
import * as item from "./item.js";
import * as presence from "./presence.js";
import * as trends from "./trends.js";

const VIEWS = [
  ["", "Overview", overview],
  ["queue", "Queue", queue],
  ["work", "Items", work],
  ["presence", "Presence", presence],
  ["trends", "Trends", trends],
];
const SINGLE = { mission: ["queue", mission], item: ["work", item] };

const by = (id) => document.getElementById(id);
const view = by("view");
let unmount = () => {};
let endRepo = () => {};
let signedIn = false;

const news = new News(say);
const stream = new Stream(
  (kind, data) => {
    heard(kind, data);
    news.heard(kind, data);
  },
  (since) => {
    const bar = by("live");
    const text =
      since === null
        ? "live"
        : `not live since ${clock(since)}, trying again. What is shown may be older than it looks.`;
    if (bar.dataset.said === text) return;
    bar.dataset.said = text;
    bar.dataset.state = since === null ? "live" : "gone";
    put(bar, h("span", { class: "dot", "aria-hidden": "true" }), text);
  },
);

function route() {
  const [name = "", param = ""] = location.hash.replace(/^#\/?/, "").split("/", 2);
  let decoded = "";
  try {
    decoded = decodeURIComponent(param);
  } catch {
    return ["", overview, ""];
  }
  if (Object.hasOwn(SINGLE, name) && decoded !== "") return [...SINGLE[name], decoded];
  const found = VIEWS.find(([one]) => one === name) ?? VIEWS[0];
  return [found[0], found[2], decoded];
}

function show(focus = true) {
  if (!signedIn) return;
  unmount();
  const [name, one, param] = route();
  for (const link of by("nav").children) link.toggleAttribute("aria-current", link.dataset.view === name);
  for (const link of by("nav").children) if (link.dataset.view === name) link.setAttribute("aria-current", "page");
  put(view);
  unmount = one.mount(view, param) ?? (() => {});
  const title = view.querySelector("h1");
  document.title = `${title?.textContent ?? "kranzq"} – kranzq`;
  if (focus) {
    title?.setAttribute("tabindex", "-1");
    title?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function begin(who) {
  signedIn = true;
  Object.assign(me, who);
  put(
    by("nav"),
    VIEWS.map(([name, word], at) => h("a", { href: `#/${name}`, "data-view": name, title: `Key ${at + 1}` }, word)),
  );
  const may = who.operator || who.scopes.includes("operate") ? "may change things" : "looks only";
  put(
    by("session"),
    h("span", { class: "who" }, who.name !== "" ? who.name : "operator", h("small", null, ` ${may}`)),
    h("button", { type: "button", onclick: leave }, "Sign out"),
  );
  for (const id of ["nav", "session", "live", "keys"]) by(id).hidden = false;
  put(by("live"), h("span", { class: "dot", "aria-hidden": "true" }), "connecting");
  delete by("live").dataset.said;
  by("live").dataset.state = "first";
  stream.start();
  endRepo = shared.status.use(showRepo);
  say(`Signed in as ${who.name !== "" ? who.name : "the operator"}.`);
  show(false);
}

function signedOut(why) {
  const was = signedIn;
  if (!was && view.querySelector("form.signin") !== null) return; // the first of many that are refused has told why
  signedIn = false;
  stream.stop();
  unmount();
  endRepo();
  unmount = endRepo = () => {};
  forget();
  put(by("repo"));
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  for (const id of ["nav", "session", "live", "keys"]) by(id).hidden = true;
  document.title = "Sign in – kranzq";
  showSignIn(view, was ? why : "", boot);
}

async function leave() {
  try {
    await signOut();
  } catch (fault) {
    if (fault.status !== 401) return tellFault(fault);
  }
  signedOut("You are signed out.");
}

async function boot() {
  try {
    if (!(await ask("GET", "/v1/session")).signed_in) return signedOut("");
    begin(await ask("GET", "/v1/agent"));
  } catch (fault) {
    if (fault.status === 401) return;
    put(view, h("h1", null, "The server does not answer"), h("p", null, fault.message), h("p", null, fault.hint));
    setTimeout(boot, 3000);
  }
}

function key(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !signedIn) return;
  if (event.target.closest("input, select, textarea, dialog") !== null || !keysAreOn()) return;
  const at = "12345".indexOf(event.key);
  if (event.key === "?") helpDialog();
  else if (at >= 0) location.hash = `#/${VIEWS[at][0]}`;
  else if (event.key === "/") view.querySelector("input[type=search]")?.focus();
  else if (event.key === "j" || event.key === "k") {
    const links = [...view.querySelectorAll(".row .name a")];
    const here = links.indexOf(document.activeElement?.closest(".row")?.querySelector(".name a"));
    const next = links[here < 0 ? (event.key === "j" ? 0 : links.length - 1) : here + (event.key === "j" ? 1 : -1)];
    next?.focus();
  } else return;
  event.preventDefault();
}

by("keys").addEventListener("click", helpDialog);
by("skip").addEventListener("click", (event) => {
  event.preventDefault();
  view.focus();
});
document.addEventListener("keydown", key);
addEventListener("hashchange", () => show());
whenSignedOut(() => signedOut("You were signed out: the session is over, or its token was rotated or revoked."));

function showRepo() {
  const repo = shared.status.value?.repo ?? "";
  put(by("repo"), h("span", { title: repo }, repo.split("/").pop() ?? ""));
}

void boot();
