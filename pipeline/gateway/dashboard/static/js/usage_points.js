// Reports of usage as points of charts.

export const PERCENTS = ["p50", "p95", "p99"];
const SIZES = { minute: 60, hour: 3600, day: 86_400 };

/** A usage report -> x, the seconds of each point, and for each group its rows in these points. */
export function arrange(report, range, by) {
  const x = [];
  const now = Date.now() / 1000;
  if (range.bucket === "day") {
    const day = new Date((now - range.seconds) * 1000);
    day.setHours(0, 0, 0, 0);
    for (; day.getTime() / 1000 <= now; day.setDate(day.getDate() + 1)) x.push(day.getTime() / 1000);
  } else {
    const step = SIZES[range.bucket] * (range.merge ?? 1);
    for (let at = Math.floor((now - range.seconds) / step) * step; at <= now; at += step) x.push(at);
  }
  const place = (bucket) => {
    const at = Date.parse(bucket) / 1000;
    return x.findLastIndex((start) => start <= at);
  };
  const groups = new Map();
  for (const row of report.rows) {
    const name = by === "total" ? "total" : row.other ? "other" : row[by] ?? "unknown";
    if (!groups.has(name)) groups.set(name, new Array(x.length).fill(null));
    const rows = groups.get(name);
    const n = place(row.bucket);
    if (n >= 0) rows[n] = rows[n] ? merged(rows[n], row) : row;
  }
  const tokens = (rows) => rows.reduce((sum, row) => sum + (row?.total_tokens ?? 0), 0);
  const sorted = [...groups].sort(([a, one], [b, two]) => (a === "other") - (b === "other") || tokens(two) - tokens(one));
  const seconds = x.map((at, n) => Math.max(1, (x[n + 1] ?? Math.min(now, at + SIZES[range.bucket] * (range.merge ?? 1))) - at));
  return { x, seconds, groups: sorted, total: report.total };
}

/** A sum of what is known; null where nothing is. */
export function plus(a, b) {
  return a === null && b === null ? null : (a ?? 0) + (b ?? 0);
}

/** Two buckets in one point: sums. Percentiles can't be added up. */
function merged(a, b) {
  return {
    total_tokens: plus(a.total_tokens, b.total_tokens),
    cost_usd: plus(a.cost_usd, b.cost_usd),
    turns: a.turns + b.turns,
    interrupted: a.interrupted + b.interrupted,
    errors: a.errors + b.errors,
    feedback: a.feedback && rated(a.feedback, b.feedback),
  };
}

/** The means of both, by the name of the feedback. */
function rated(a, b) {
  return Object.fromEntries(Object.keys(a).map((name) => {
    const count = a[name].count + b[name].count;
    return [name, { count, mean: count ? (a[name].mean * a[name].count + b[name].mean * b[name].count) / count : null }];
  }));
}
