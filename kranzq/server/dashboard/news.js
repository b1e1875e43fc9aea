// What a person who does not look at the page is told: that missions begin, end or need somebody. Gathered, so that a
// busy queue does not talk all the time; nothing is said of what only moves.

const GATHER_MS = 1500;
const REST_MS = 10_000;
const MOST = 3;

function sentence(one) {
  if (one.state === "claimed") return `${one.mission} runs`;
  if (one.state === "parked") return `${one.mission} is parked: ${one.why}`;
  if (one.state === "quarantined") return `${one.file} is quarantined: ${one.why}`;
  if (one.state === "gone" && one.outcome !== null) return `${one.mission} has ended: ${one.outcome}`;
  return null;
}

export class News {
  constructor(say) {
    this.say = say;
    this.gathered = new Map();
    this.timer = null;
    this.told = -Infinity;
  }

  heard(kind, data) {
    if (kind !== "mission") return;
    const text = sentence(data);
    if (text === null) return;
    this.gathered.delete(data.mission);
    this.gathered.set(data.mission ?? data.file, text);
    this.timer ??= setTimeout(() => this.tell(), Math.max(GATHER_MS, this.told + REST_MS - performance.now()));
  }

  tell() {
    const texts = [...this.gathered.values()];
    const more = texts.length - MOST;
    this.timer = null;
    this.told = performance.now();
    this.gathered.clear();
    this.say(`${texts.slice(-MOST).join("; ")}${more > 0 ? `; and ${more} more` : ""}.`);
  }
}
