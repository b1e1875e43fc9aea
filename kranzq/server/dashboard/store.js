// What is known of the server: each source is asked when a view that shows it is there and something has changed.
// Events say that something changed; what it is now is asked, at most so often that the asking stays a small part.

import { ask } from "./api.js";

const SOON_MS = 120;
const LEAST_MS = 700;
const SHARE = 6;
const AGAIN_MS = 3000;

const all = new Set();

export class Source {
  /** `load` asks; `concerns(kind, data)` says whether an event may have changed it; `everyMs` asks without an event. */
  constructor(load, concerns, everyMs = 0) {
    this.load = load;
    this.concerns = concerns;
    this.everyMs = everyMs;
    this.listeners = new Set();
    this.value = null;
    this.fault = null;
    this.took = 0;
    this.asked = -Infinity;
    this.timer = null;
    this.due = Infinity;
    this.stale = true;
    this.busy = false;
  }

  /** Call `show` now and whenever there is something else to show; what comes back ends it. */
  use(show) {
    this.listeners.add(show);
    all.add(this);
    show();
    this.touch();
    return () => {
      this.listeners.delete(show);
      if (this.listeners.size > 0) return;
      all.delete(this);
      this.unset();
    };
  }

  /** It may be something else by now. News only bring the asking forward: a stream of them must not put it off. */
  touch(afterMs = SOON_MS) {
    this.stale = true;
    if (this.busy || this.listeners.size === 0) return;
    const first = this.value === null && this.fault === null;
    const wait = first ? 0 : Math.max(afterMs, this.asked + Math.max(LEAST_MS, SHARE * this.took) - performance.now());
    if (performance.now() + wait < this.due) this.set(() => void this.refresh(), wait);
  }

  set(what, wait) {
    this.unset();
    this.due = performance.now() + wait;
    this.timer = setTimeout(() => {
      this.unset();
      what();
    }, wait);
  }

  unset() {
    clearTimeout(this.timer);
    this.timer = null;
    this.due = Infinity;
  }

  async refresh() {
    if (this.busy || this.listeners.size === 0) return;
    this.unset();
    this.busy = true;
    this.stale = false;
    const begun = performance.now();
    try {
      this.value = await this.load();
      this.fault = null;
    } catch (fault) {
      this.fault = fault;
      if (fault.status !== 0) this.value = null; // what was known is not so any more; where nobody was reached it may be
    }
    this.asked = performance.now();
    this.took = this.asked - begun;
    this.busy = false;
    for (const show of [...this.listeners]) show();
    if (this.stale) this.touch();
    else if (this.fault !== null && (this.fault.status === 0 || this.fault.status >= 500)) this.touch(AGAIN_MS);
    else if (this.everyMs > 0 && this.listeners.size > 0) {
      this.set(
        () => void (document.hidden ? this.touch(this.everyMs) : this.refresh()),
        Math.max(this.everyMs, 20 * this.took),
      );
    }
  }
}

/** Tell all sources of an event. After a snapshot nothing of what was known is sure. */
export function heard(kind, data) {
  for (const one of all) if (kind === "snapshot" || kind === "resync" || one.concerns(kind, data)) one.touch();
}

export function touchAll() {
  for (const one of all) one.touch(0);
}

/** Forget everything, as at a sign-out: the next one may not see what this one saw. */
export function forget() {
  for (const one of [...all, ...Object.values(shared)]) {
    one.value = null;
    one.fault = null;
    one.stale = true;
  }
}

const ofMissions = (kind) => kind === "mission";
/** It has run: one that has only ever waited is no news to whoever shows runs. */
export const ofRuns = (kind, data) => kind === "mission" && data.run !== null;
const ofItems = (kind) => kind === "item";

export const shared = {
  status: new Source(() => ask("GET", "/v1/status"), ofMissions, 5000),
  missions: new Source(() => ask("GET", "/v1/missions?all=true"), ofMissions, 60_000),
  ended: new Source(() => ask("GET", "/v1/timeline?last=20"), ofRuns, 60_000),
  stats: new Source(() => ask("GET", "/v1/work/stats"), ofItems, 30_000),
  presence: new Source(
    () => ask("GET", "/v1/work-claims"),
    (kind) => kind === "presence",
    60_000,
  ),
};
