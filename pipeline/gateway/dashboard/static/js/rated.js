// How turns were rated over time: a chart of the mean of feedback, by its name or by what the charts are grouped by.

import * as api from "./api.js";
import { chart } from "./chart.js";
import { select } from "./controls.js";
import { exact } from "./format.js";
import { arrange } from "./usage_points.js";

const MOST = 5; // names in a chart
const EVERY = 60; // s at least: turns are looked up from the feedback

/** The names of all feedback of a tenant; none where they can't be had. */
export function feedbackNames(tenant, signal) {
  return api.json("/v1/feedback", { tenant }, signal).then(({ names }) => names, () => []);
}

export function mean(value) {
  return value === null || value === undefined ? "–" : value.toFixed(2);
}

/**
 * Adds a chart to `charts`, and a choice of the name to `pick`, where there is any feedback. `ask(names)` -> a report of
 * usage with them; `series(name, values, said)` as in a chart. Returns what draws it again.
 */
export async function ratedChart({ tenant, range, by, open, ask, series, charts, pick, signal }) {
  const names = (await feedbackNames(tenant, signal)).slice(0, by === "total" ? MOST : undefined);
  if (signal.aborted || !names.length) return null;
  let name = names[0];
  const one = chart({ title: "Feedback", kind: "line", format: mean, note: "mean; true is 1, false is 0", open });
  if (by !== "total" && names.length > 1) {
    pick.append("Feedback", select(names.map((each) => [each, each]), name, (chosen) => { name = chosen; load(); }, { "data-focus": "feedback" }));
    pick.hidden = false;
  }
  charts.append(one.element);
  one.loading();
  poll();
  return one;

  async function poll() {
    while (!signal.aborted) {
      if (!document.hidden) await load();
      await new Promise((resolve) => setTimeout(resolve, Math.max(range.every, EVERY) * 1000));
    }
  }

  async function load() {
    const wanted = by === "total" ? names : [name];
    try {
      const report = await ask(wanted);
      const { x, groups } = arrange(report, range, by);
      const lines = wanted.flatMap((each) => groups.map(([group, rows]) => {
        const rated = rows.map((row) => row?.feedback[each] ?? null);
        const { count, sum } = rated.reduce((all, found) => (found?.count ? { count: all.count + found.count, sum: all.sum + found.mean * found.count } : all), { count: 0, sum: 0 });
        return count > 0 && series(by === "total" ? each : group, rated.map((found) => found?.mean ?? null), `${mean(sum / count)} (${exact(count)})`);
      }));
      const all = report.total.feedback[wanted[0]];
      one.show({ x, step: range.id, summary: wanted.length > 1 || !all.count ? "" : `${mean(all.mean)} of ${exact(all.count)}`, series: lines.filter(Boolean) });
    } catch (error) {
      if (!signal.aborted) one.failed(error.title);
    }
  }
}
