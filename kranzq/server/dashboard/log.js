// A run's output as it grows: read from where the last answer ended, until the server says that there is no more.

import { get, missionPath } from "./api.js";
import { h, lines, put } from "./dom.js";

const FIRST = 65_536;
const MOST = 400_000;
const EACH_MS = 1000;
const RARE_MS = 5000;

export class Log {
  constructor(mission) {
    this.mission = mission;
    this.run = null;
    this.newest = null;
    this.ended = false;
    this.generation = 0;
    this.pre = h("pre", {
      class: "log",
      tabindex: "0",
      role: "log",
      "aria-live": "off",
      "aria-label": "Output",
      dir: "auto",
    });
    this.told = h("p", { class: "quiet" }, "It has not run yet.");
    this.down = h("input", { type: "checkbox", id: "down", checked: true });
    this.choice = h("select", { id: "run" });
    this.choice.addEventListener("change", () => this.open(Number(this.choice.value)));
    this.tools = h(
      "p",
      { class: "tools" },
      h("span", null, h("label", { for: "run" }, "Run"), this.choice),
      h("span", null, this.down, h("label", { for: "down" }, " Stay at the end")),
    );
    this.tools.hidden = this.pre.hidden = true;
    this.root = h("div", null, this.tools, this.told, this.pre);
  }

  /** Learn which runs there are that said something, perhaps; whoever reads the newest one goes on to the next one by itself. */
  follow(runs) {
    const numbers = runs.filter((run) => run.startedAt !== null).map((run) => run.run);
    const newest = numbers.at(-1) ?? null;
    if (newest === null || newest === this.newest) return;
    const atNewest = this.run === null || this.run === this.newest;
    this.newest = newest;
    put(
      this.choice,
      numbers.reverse().map((number) => h("option", { value: String(number) }, number)),
    );
    this.tools.hidden = this.pre.hidden = false;
    if (atNewest) this.open(newest);
    else this.choice.value = String(this.run);
  }

  open(run) {
    this.end();
    this.run = run;
    this.choice.value = String(run);
    this.pre.textContent = "";
    this.decoder = new TextDecoder();
    this.place = null;
    void this.read(this.generation);
  }

  end() {
    this.generation += 1;
    clearTimeout(this.timer);
  }

  async read(generation) {
    let wait = EACH_MS;
    try {
      const offset = this.place ?? -FIRST;
      const answer = await get(missionPath(this.mission, `/log?run=${this.run}&offset=${offset}&limit=262144`));
      const bytes = new Uint8Array(await answer.arrayBuffer());
      if (generation !== this.generation) return;
      const said = (name) => answer.headers.get(`x-log-${name}`);
      const start = Number(said("offset"));
      if (this.place === null && start > 0)
        this.add(`… the first ${start.toLocaleString("en")} bytes are left out: kranzq logs ${this.mission}\n`);
      else if (this.place !== null && start > this.place)
        this.add("\n… here some of it was left out, as it grew too large …\n");
      this.place = Number(said("next"));
      this.add(this.decoder.decode(bytes, { stream: true }));
      this.ended = said("ended") === "true";
      const more = this.place < Number(said("size"));
      put(
        this.told,
        this.ended
          ? `${Number(said("size")).toLocaleString("en")} bytes; the run has ended.`
          : `${this.place.toLocaleString("en")} bytes so far; it goes on.`,
      );
      if (this.ended && !more) return;
      wait = more ? 0 : EACH_MS;
    } catch (fault) {
      if (generation !== this.generation || fault.status === 401) return;
      put(this.told, `${fault.message} ${fault.hint ?? ""}`);
      wait = RARE_MS;
    }
    this.timer = setTimeout(() => void this.read(generation), document.hidden ? RARE_MS : wait);
  }

  add(text) {
    if (text === "") return;
    this.pre.append(document.createTextNode(lines(text)));
    let size = this.pre.textContent.length;
    while (size > MOST && this.pre.childNodes.length > 1) {
      size -= this.pre.firstChild.length;
      this.pre.firstChild.remove();
    }
    if (this.down.checked) this.pre.scrollTop = this.pre.scrollHeight;
  }
}
