// Which model, agent, tenant and labels are looked at; to choose from is what was used in the last 30 days.

import * as api from "./api.js";
import { select } from "./controls.js";
import { h } from "./dom.js";

export const KINDS = ["model", "agent", "tenant"];
export const LABELS = ["user", "project", "branch", "environment", "tag"]; // of runs: the live figures don't know them
export const ALL = [...KINDS, ...LABELS];
const MOST = 100; // of a kind
const FRESH = 60_000; // ms
let known = null; // {at, token, names: {kind: [name]}}

/** chosen: {kind: name}. `changed(kind, name)`; an empty name is all of them. */
export function filters(chosen, signal, changed) {
  const fields = ALL.map((kind) => {
    const names = known?.names[kind] ?? [];
    const field = h("span.filter");
    const draw = (all) => {
      const options = [...new Set(chosen[kind] ? [chosen[kind], ...all] : all)].sort();
      const attributes = { "aria-label": `Only one ${kind}`, "data-focus": `only ${kind}`, "data-chosen": Boolean(chosen[kind]) };
      field.hidden = options.length < 2 && !chosen[kind];
      field.replaceChildren(select(
        [["", `All ${kind === "branch" ? "branche" : kind}s`], ...options.map((name) => [name, name])], chosen[kind] ?? "", (name) => changed(kind, name), attributes,
      ));
    };
    draw(names);
    return { kind, field, draw };
  });
  refresh();
  return h("div.filters-row", fields.map(({ field }) => field));

  async function refresh() {
    const names = await namesUsed(signal);
    if (names) for (const { kind, field, draw } of fields) if (!field.contains(document.activeElement)) draw(names[kind]);
  }
}

/** {kind: [name]} of what was used in the last 30 days; null where it can't be had. */
export async function namesUsed(signal) {
  if (known && known.token === api.token.get() && Date.now() - known.at < FRESH) return known.names;
  const from = new Date(Date.now() - 30 * 86_400_000).toISOString();
  const reports = await Promise.all(ALL.map(
    (kind) => api.json("/v1/usage", { group_by: kind, from, limit: MOST }, signal).catch(() => null),
  ));
  if (signal.aborted || reports.includes(null)) return null; // the charts say what is wrong
  const named = (report, kind) => report.rows.map((row) => (row.other ? null : row[kind])).filter((name) => name !== null);
  known = { at: Date.now(), token: api.token.get(), names: Object.fromEntries(ALL.map((kind, n) => [kind, named(reports[n], kind)])) };
  return known.names;
}
