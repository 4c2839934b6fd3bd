// The first page: figures of now, charts over a time, and the runs that are open.

import * as api from "./api.js";
import { attention } from "./attention.js";
import { chart, colour, style } from "./chart.js";
import { segmented, select } from "./controls.js";
import { fill, h, icon } from "./dom.js";
import { Figures, followFigures } from "./figures.js";
import { ALL, filters, KINDS, LABELS } from "./filters.js";
import { cost, count, dollars, duration, exact, rate } from "./format.js";
import { runList } from "./runs.js";
import { onTheme } from "./theme.js";
import { firstSteps } from "./first_steps.js";
import { ratedChart } from "./rated.js";
import { makeTiles, showTiles, unknown } from "./tiles.js";
import { toolsView } from "./tools.js";
import { arrange, PERCENTS, plus } from "./usage_points.js";

const RANGES = [
  { id: "15m", text: "15 min", seconds: 900, bucket: "minute", every: 5 },
  { id: "1h", text: "1 hour", seconds: 3600, bucket: "minute", every: 10 },
  { id: "6h", text: "6 hours", seconds: 21_600, bucket: "minute", every: 30, merge: 5 },
  { id: "24h", text: "24 hours", seconds: 86_400, bucket: "hour", every: 30 },
  { id: "7d", text: "7 days", seconds: 604_800, bucket: "hour", every: 60, merge: 4 },
  { id: "30d", text: "30 days", seconds: 2_592_000, bucket: "day", every: 60 },
];
const BY = [["total", "All"], ["model", "Model"], ["agent", "Agent"], ["tenant", "Tenant"], ["prompt", "Prompt"], ...LABELS.map((kind) => [kind, kind[0].toUpperCase() + kind.slice(1)])];
const LIVE = ["total", ...KINDS]; // what the live figures can be grouped by
const STEP = 10; // seconds of a point of the live charts
const GROUPS = 7;

/** Draws into `main` until `signal` is aborted; `query`: range, by and filters, as the address has them. */
export function overview(main, signal, query, state) {
  const range = RANGES.find((one) => one.id === query.get("range")) ?? RANGES[0];
  const by = BY.find(([id]) => id === query.get("by"))?.[0] ?? "total";
  const figures = new Figures();
  const only = Object.fromEntries(ALL.map((kind) => [kind, query.get(kind)]).filter(([, name]) => name));
  const labelled = LABELS.some((kind) => only[kind]);
  const live = range.id === "15m" && LIVE.includes(by) && !labelled;
  const tiles = makeTiles((more) => api.threadsAddress({ ...only, time: 900, ...more }));
  const open = (more) => (from, to, name) => {
    const group = ALL.includes(by) && name !== "other" && name !== "unknown" ? { [by]: name } : {};
    return api.threadsAddress({ ...only, ...group, from: new Date(from * 1000).toISOString(), to: new Date(to * 1000).toISOString(), ...more });
  };
  const charts = makeCharts(open);
  let percent = "p95";
  let usage = null; // {x, seconds, groups, total, times: {x, groups}}

  const picker = by !== "total" && h("label.pick", "Percentile", select(PERCENTS.map((p) => [p, p]), percent, (value) => {
    percent = value;
    if (usage) showTimes();
  }, { "data-focus": "percentile" }));
  const troubles = new Map();
  const warning = h("p.notice", { role: "status", hidden: true }, icon("alert"), h("span"));
  const runs = runList(signal);
  const everyChart = Object.values(charts);
  const usual = h("div.stack");
  const place = h("div.charts", everyChart.map((one) => one.element));
  const pick = h("label.pick", { hidden: true });
  fill(
    main,
    h("div.controls", h("h1", "Overview"), filters(only, signal, (kind, name) => {
      location.hash = address(range.id, by, { ...only, [kind]: name });
    })),
    warning,
    firstSteps(usual, figures, signal),
    usual,
  );
  fill(
    usual,
    !labelled && h("section.tiles", { "aria-label": "Now" }, Object.values(tiles).map((tile) => tile.element)),
    h(
      "div.controls",
      h("h2", "Over time"),
      segmented("Time range", RANGES.map(({ id, text }) => [id, text, address(id, by, only)]), range.id),
      segmented("Group by", BY.map(([id, text]) => [id, text, address(range.id, id, only)]), by),
      picker,
      pick,
    ),
    place,
    toolsView(only, range.seconds, signal),
    attention(only, signal, runs.mark, (text) => warn("runs", text && `Silent and waiting runs are not known: ${text}`)),
    runs.element,
  );
  everyChart.forEach((one) => one.loading());
  ratedChart({
    tenant: only.tenant, range, by, open: open({}), charts: place, pick, signal, series: named, ask: (feedback) => report({ feedback }),
  }).then((one) => one && everyChart.push(one));

  let drawnAt = 0;
  followFigures(figures, { by: LIVE.includes(by) ? by : "total", ...Object.fromEntries(KINDS.map((kind) => [kind, only[kind]])) }, () => {
    showTiles(tiles, figures);
    runs.show(figures);
    const behind = figures.skipped
      && `The live figures are behind: ${exact(figures.skipped)} records were passed over. Totals from the store are whole.`;
    warn("live", figures.trouble && figures.trouble !== "connecting" ? `No live figures: ${figures.trouble}` : behind);
    if (live && unknown(figures)) {
      for (const one of [charts.tokens, charts.cost, charts.turns, charts.errors]) one.failed("Can't load these figures right now");
    } else if (live && figures.now !== drawnAt) {
      drawnAt = figures.now;
      showLive();
    }
  }, signal, (name, error) => {
    state(name === "live" && figures.catchingUp ? "catching" : name);
    if (name === "lost") warn("live", `${error?.title ?? "The connection is lost"}. ${error?.message ?? ""}`);
  });
  poll();
  onTheme(signal, () => { everyChart.forEach((one) => one.redraw()); showTiles(tiles, figures); });

  /** What was drawn stays, and a line above it says why it is old. */
  function warn(from, text) {
    troubles.set(from, text || null);
    const said = [...troubles.values()].filter(Boolean);
    warning.hidden = !said.length;
    const now = said.join(" ");
    if (warning.lastChild.textContent !== now) warning.lastChild.textContent = now; // told once to a screen reader
  }

  async function poll() {
    while (!signal.aborted) {
      if (!document.hidden) {
        try {
          usage = await ask();
          if (!live) showUsage();
          showTimes();
          warn("store", null);
        } catch (error) {
          if (signal.aborted) return;
          warn("store", error.status === 0 ? null : `No figures from the store: ${error.message}`);
          for (const one of everyChart) one.failed(error.title);
        }
      }
      await new Promise((resolve) => setTimeout(resolve, range.every * 1000));
    }
  }

  async function ask() {
    const found = await report({});
    return { ...arrange(found, range, by), times: arrange(found, { ...range, merge: 1 }, by) };
  }

  function report(more) {
    const tz = range.bucket === "day" ? Intl.DateTimeFormat().resolvedOptions().timeZone : "UTC";
    const from = new Date(Date.now() - range.seconds * 1000).toISOString();
    const asked = { bucket: range.bucket, from, tz, limit: GROUPS, group_by: by === "total" ? null : by, ...only, ...more };
    return api.json("/v1/usage", asked, signal);
  }

  function showLive() {
    const tokens = figures.steps(["input_tokens", "output_tokens"], STEP);
    show(charts.tokens, tokens, (value) => value / STEP, `${rate(figures.sum(["input_tokens", "output_tokens"], 60) / 60)}/s`);
    show(charts.cost, figures.steps(["cost_nano_usd"], STEP), (value) => value / 1e9, cost(figures.sum(["cost_nano_usd"], 900) / 1e9, figures.sum(["unpriced"], 900)));
    show(charts.turns, figures.steps(["turns"], STEP), (value) => value, exact(figures.sum(["turns"], 900)));
    const interrupted = exact(figures.sum(["interrupted"], 900));
    if (by !== "total") {
      show(charts.errors, figures.steps(["interrupted"], STEP), (value) => value, interrupted);
      return;
    }
    const values = (field) => figures.steps([field], STEP).groups[0]?.[1] ?? tokens.x.map(() => 0);
    charts.errors.show({ x: tokens.x, step: STEP, summary: interrupted, series: endings(values("errors"), values("interrupted")) });
  }

  function show(one, { x, groups }, scale, summary) {
    one.show({ x, step: STEP, summary, series: groups.map(([name, values]) => named(name, values.map(scale))) });
  }

  function named(name, values, said = null) {
    const shown = name === "total" ? "all" : by === "prompt" ? name.slice(0, 12) : name; // a prompt is named by a hash
    return { name: shown, colour: name === "total" ? style("--accent") : colour(name), values, said };
  }

  function showUsage() {
    const { x, seconds, groups, total } = usage;
    const sum = (rows, field) => rows.reduce((all, row) => plus(all, row?.[field] ?? null), null);
    const draw = (one, field, words, summary, value = (row) => row[field]) => one.show({
      x, step: range.id, summary,
      series: groups.map(([name, rows]) => named(name, rows.map((row, n) => (row ? value(row, seconds[n]) : 0)), by === "total" ? null : words(sum(rows, field)))),
    });
    draw(charts.tokens, "total_tokens", count, `${count(total.total_tokens)} tokens`, (row, length) => row.total_tokens / length);
    draw(charts.cost, "cost_usd", dollars, cost(total.cost_usd, total.unpriced) + (total.estimated_cost_usd ? `, ≈ ${dollars(total.estimated_cost_usd)} broken off` : ""));
    draw(charts.turns, "turns", exact, exact(total.turns));
    if (by !== "total") {
      draw(charts.errors, "interrupted", exact, exact(total.interrupted));
      return;
    }
    const values = (field) => x.map((_, n) => groups[0]?.[1][n]?.[field] ?? 0);
    charts.errors.show({ x, step: range.id, summary: exact(total.interrupted), series: endings(values("errors"), values("interrupted")) });
  }

  function endings(errors, interrupted) {
    return [
      { name: "by an error", colour: style("--bad"), values: errors },
      { name: "otherwise", colour: style("--series-2"), values: interrupted.map((value, n) => value - errors[n]) },
    ];
  }

  function showTimes() {
    const { times: { x, groups }, total } = usage;
    for (const [one, field] of [[charts.ttft, "ttft_ms"], [charts.latency, "duration_ms"]]) {
      const series = by === "total"
        ? PERCENTS.map((p, n) => ({
          name: p, colour: style(`--percent-${n}`), values: (groups[0]?.[1] ?? x.map(() => null)).map((row) => row?.[field][p] ?? null),
        }))
        : groups.map(([name, rows]) => named(name, rows.map((row) => row?.[field][percent] ?? null)));
      const p = by === "total" ? "p95" : percent;
      one.show({ x, step: range.id, series, summary: total[field][p] === null ? "" : `${p} ${duration(total[field][p])}` });
    }
  }
}

function makeCharts(open) {
  return {
    tokens: chart({ title: "Tokens per second", kind: "area", format: rate, open: open({ sort: "tokens" }) }),
    cost: chart({ title: "Cost", kind: "bars", format: dollars, open: open({ sort: "cost" }) }),
    turns: chart({ title: "Turns", kind: "bars", format: rate, open: open({}) }),
    errors: chart({ title: "Interrupted turns", kind: "bars", format: rate, open: open({ status: "interrupted" }) }),
    ttft: chart({ title: "Time to first token", kind: "line", format: duration, open: open({}) }),
    latency: chart({ title: "Latency of responses", kind: "line", format: duration, open: open({ sort: "duration" }) }),
  };
}

function address(range, by, only) {
  const query = new URLSearchParams(Object.entries(only).filter(([, name]) => name));
  if (range !== "15m") query.set("range", range);
  if (by !== "total") query.set("by", by);
  return `#/${query.size ? `?${query}` : ""}`;
}
