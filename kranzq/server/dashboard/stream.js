// Live events, read by hand: an EventSource would neither say that a token is refused nor notice a connection that is
// open and silent. The server says something every 15 s, so one from which nothing comes for 40 s is dead.

import { Fault, get } from "./api.js";
import { now } from "./words.js";

const SILENT_MS = 40_000;
const PAUSES_MS = [1000, 2000, 4000, 8000];
const LASTED_MS = 5000; // one that was ended sooner is begun again after a pause
const HIDDEN_MS = 60_000;

export class Stream {
  /** `told(kind, data)` for each event; `changed(since)` with null when live, else since when it is not. */
  constructor(told, changed) {
    this.told = told;
    this.changed = changed;
    this.lastId = null;
    this.heard = null;
    this.running = null;
    this.rests = false;
    document.addEventListener("visibilitychange", () => this.looked());
  }

  start() {
    if (this.running !== null) return;
    if (document.hidden) {
      this.rests = true; // opened behind the others: it begins when it is seen
      return;
    }
    this.running = new AbortController();
    void this.run(this.running);
  }

  stop() {
    this.running?.abort();
    this.running = null;
    this.rests = false;
    clearTimeout(this.resting);
  }

  /** A browser opens few connections to one server: a page that nobody sees gives its one back, and reads on later. */
  looked() {
    clearTimeout(this.resting);
    if (document.hidden) this.resting = setTimeout(() => this.rest(), HIDDEN_MS);
    else if (this.rests) {
      this.rests = false;
      this.start();
    }
  }

  rest() {
    if (this.running === null) return;
    this.stop();
    this.rests = true;
    this.changed(this.heard ?? now());
  }

  async run(own) {
    let failed = 0;
    while (!own.signal.aborted) {
      const begun = this.heard;
      const since = performance.now();
      try {
        await this.listen(own);
        if (this.bye && performance.now() - since > LASTED_MS) {
          failed = 0;
          continue;
        }
      } catch (fault) {
        if (own.signal.aborted || (fault instanceof Fault && fault.status === 401)) break;
      }
      if (own.signal.aborted) break;
      failed = this.heard !== begun ? 0 : failed + 1;
      this.changed(this.heard ?? now());
      await new Promise((done) => setTimeout(done, PAUSES_MS[Math.min(failed, PAUSES_MS.length - 1)]));
    }
    if (this.running === own) this.running = null;
  }

  async listen(own) {
    const one = new AbortController();
    const end = () => one.abort();
    own.signal.addEventListener("abort", end);
    let watch = setTimeout(end, SILENT_MS);
    this.bye = false;
    try {
      const headers = this.lastId === null ? {} : { "last-event-id": this.lastId };
      const answer = await get("/v1/events", { headers, signal: one.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(watch);
        watch = setTimeout(end, SILENT_MS);
        this.heard = now();
        this.changed(null);
        const frames = (rest + value).split("\n\n");
        rest = frames.pop();
        for (const frame of frames) this.frame(frame);
      }
    } finally {
      clearTimeout(watch);
      own.signal.removeEventListener("abort", end);
      one.abort();
    }
  }

  frame(text) {
    let kind = "";
    let data = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("id: ")) this.lastId = line.slice(4);
      else if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (kind === "") return;
    if (kind === "bye") this.bye = true;
    this.told(kind, data === "" ? {} : JSON.parse(data));
  }
}
