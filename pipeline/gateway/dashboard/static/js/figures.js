// The live stream of figures, held as the last 15 minutes, second by second.

import { follow } from "./api.js";

const WINDOW = 900;

export class Figures {
  constructor() {
    this.reset();
  }

  reset() {
    this.now = 0; // epoch seconds, by the gateway's clock
    this.groups = [];
    this.fields = {};
    this.rows = new Map(); // second -> Map(group number -> figures)
    this.open = null;
    this.openAt = new Map(); // second -> open runs, since this page looks
    this.runs = [];
    this.catchingUp = false;
    this.trouble = null;
    this.skipped = 0;
  }

  take(frame) {
    if (frame.whole) this.rows.clear();
    this.now = Math.floor(frame.now / 1000);
    this.groups = frame.groups;
    this.fields = Object.fromEntries(frame.fields.map((name, n) => [name, n]));
    const fresh = new Map();
    for (const [at, group, ...sums] of frame.rows) {
      if (!fresh.has(at)) fresh.set(at, new Map());
      fresh.get(at).set(group, sums);
    }
    for (const [at, groups] of fresh) this.rows.set(at, groups);
    for (const at of this.rows.keys()) if (at <= this.now - WINDOW) this.rows.delete(at);
    this.openAt.set(this.now, frame.open);
    this.openAt.delete(this.now - WINDOW);
    Object.assign(this, { open: frame.open, runs: frame.runs, catchingUp: frame.catching_up, trouble: frame.trouble, skipped: frame.skipped });
  }

  /** The sum of some fields over the newest seconds, all groups together. */
  sum(fields, seconds) {
    let total = 0;
    for (const [at, groups] of this.rows) {
      if (at <= this.now - seconds || at > this.now + 1) continue;
      for (const sums of groups.values()) for (const name of fields) total += sums[this.fields[name]];
    }
    return total;
  }

  /** Open runs over the last minute; null before this page looked. */
  opens() {
    let value = null;
    return Array.from({ length: 60 }, (_, n) => {
      value = this.openAt.get(this.now - 59 + n) ?? value;
      return value;
    });
  }

  /** x: beginnings of steps over the window, and for each group the sums of some fields in each step. */
  steps(fields, step) {
    const last = Math.floor(this.now / step) * step;
    const first = last - WINDOW + step;
    const x = Array.from({ length: WINDOW / step }, (_, n) => first + n * step);
    const groups = new Map();
    for (const [at, found] of this.rows) {
      const place = Math.floor((at - first) / step);
      if (place < 0 || place >= x.length) continue;
      for (const [group, sums] of found) {
        if (!groups.has(group)) groups.set(group, new Array(x.length).fill(0));
        for (const name of fields) groups.get(group)[place] += sums[this.fields[name]];
      }
    }
    const names = [...groups.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b);
    return { x, groups: names.map((n) => [n < 0 ? "other" : this.groups[n] ?? "unknown", groups.get(n)]) };
  }
}

/** Follows the live figures; query: what they are told apart `by`, and filters. `changed` after each message. */
export function followFigures(figures, query, changed, signal, state) {
  figures.reset();
  return follow("/v1/figures/live", query, (message) => {
    figures.take(JSON.parse(message.data));
    changed();
  }, signal, state);
}
