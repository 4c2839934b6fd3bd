// Numbers, times and sizes for people. Everything in the reader's own locale and time zone.

const plain = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
// In every locale K, M and B: en-GB writes "37m", which reads as metres.
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** 1234567 -> 1.2M; small numbers with one decimal place at most. */
export function count(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 10_000) return short.format(value);
  return (Math.abs(value) < 100 && !Number.isInteger(value) ? one : plain).format(value);
}

/** A number per second: one decimal place below ten. */
export function rate(value) {
  return value === null || value === undefined ? "–" : count(value < 10 ? Math.round(value * 10) / 10 : value);
}

/** All digits. */
export function exact(value) {
  return value === null || value === undefined ? "–" : plain.format(value);
}

/** US dollars: as many decimals as it takes to see something. */
export function dollars(value) {
  if (value === null || value === undefined) return "–";
  const digits = value === 0 || value >= 1 ? 2 : value >= 0.01 ? 3 : value >= 0.0001 ? 5 : 7;
  return value >= 10_000 ? `$${short.format(value)}` : `$${value.toFixed(digits)}`;
}

/** A cost, as far as prices are known: `unpriced` responses have none. Unknown is never 0. */
export function cost(value, unpriced) {
  if (!unpriced) return dollars(value);
  return value ? `${dollars(value)} +` : "no price known";
}

/** Milliseconds -> 320 ms, 2.4 s, 3 min 5 s, 2 h 10 min; – below 0, of times that contradict each other. */
export function duration(ms) {
  if (ms === null || ms === undefined || !(ms >= 0)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${one.format(seconds)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} days`;
}

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 1e6 ? `${one.format(size / 1e3)} kB` : `${one.format(size / 1e6)} MB`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "numeric", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** A moment: its time of day where it was today, else with its date. */
export function moment(value) {
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  return date.toDateString() === new Date().toDateString() ? clock.format(date) : day.format(date);
}

/** A moment in full, for titles and tables. */
export function inFull(value) {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? String(value) : full.format(date);
}

/** How long ago, roughly. */
export function ago(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

export function many(number, thing) {
  return `${exact(number)} ${thing}${number === 1 ? "" : "s"}`;
}

/** What a thread without title and words is called: by those who spoke in it. */
export function nameOf({ agents }) {
  return agents.length ? `${agents.join(", ")}, without words of a user` : "No words yet";
}
