// One chart: uPlot's canvas, and around it what a canvas lacks: legend, tooltip, states, and a table of the same data.

import { fill, h } from "./dom.js";
import { inFull } from "./format.js";

const { uPlot } = globalThis;
const HEIGHT = 188;
const ROWS = 60; // of the table
let made = 0;

const colours = new Map();

/** A group's colour: the same in all charts, for as long as the page is open. */
export function colour(name) {
  if (name === "other") return style("--other");
  if (!colours.has(name)) colours.set(name, colours.size % 8);
  return style(`--series-${colours.get(name)}`);
}

export function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * kind: "area" (stacked), "bars" (stacked) or "line". format(value) -> text.
 * open(from, to, name) -> the address of what is behind a point (epoch s), of one series or null for all.
 * show({x: [epoch s], series: [{name, colour, values, said: of all of them, or null}], summary}) draws.
 */
export function chart({ title, kind, format, note, open }) {
  made += 1;
  const id = `chart-${made}`;
  const figure = h("span.figure");
  const plot = h("div.plot", { role: "img" });
  const tip = h("div.tip", { hidden: true, "aria-hidden": "true" });
  const message = h("p.state");
  const legend = h("div.legend", { role: "group", "aria-label": `Series of ${title}` });
  const table = h("div.data", { hidden: true, tabindex: "0", role: "region", "aria-label": `${title}, as a table` });
  const data = h("button.quiet.small", { type: "button", "aria-expanded": "false", "aria-label": `${title} as a table` }, "Table");
  const element = h(
    open ? "section.card.chart.opens" : "section.card.chart",
    { "aria-labelledby": id },
    h("header", h("h3", { id }, title), note && h("span.note", note), figure),
    h("div.stage", plot, message, tip),
    h("div.under-plot", legend, data),
    table,
  );
  const hidden = new Set();
  let given = null;
  let drawn = null; // {plot, shape}

  data.addEventListener("click", () => {
    table.hidden = !table.hidden;
    data.setAttribute("aria-expanded", String(!table.hidden));
    tabulate();
  });
  new ResizeObserver(() => drawn?.plot.setSize(size())).observe(plot);

  function size() {
    return { width: Math.max(200, plot.clientWidth), height: HEIGHT };
  }

  function say(text, problem = false) {
    message.textContent = text;
    message.classList.toggle("problem", problem);
    element.dataset.state = text ? (problem ? "error" : "empty") : "drawn";
    plot.classList.toggle("away", Boolean(text));
  }

  function show(data) {
    given = data;
    figure.textContent = data.summary ?? "";
    const some = data.series.some((one) => one.values.some((value) => value !== null && value !== 0));
    say(some ? "" : "Nothing in this time");
    listed();
    draw();
    tabulate();
  }

  function listed() {
    legend.hidden = given.series.length < 2;
    const names = given.series.map((one) => one.name).join("\n");
    if (legend.dataset.names === names) {
      given.series.forEach((one, n) => { legend.children[n].lastChild.textContent = one.said ?? ""; });
      return;
    }
    legend.dataset.names = names;
    fill(
      legend,
      given.series.map((one) => {
        const swatch = h("i");
        swatch.style.background = one.colour;
        const button = h("button", { type: "button", "aria-pressed": !hidden.has(one.name) + "" }, swatch, one.name, h("span.muted", one.said ?? ""));
        button.addEventListener("click", () => {
          if (!hidden.delete(one.name)) hidden.add(one.name);
          button.setAttribute("aria-pressed", String(!hidden.has(one.name)));
          draw();
        });
        return button;
      }),
    );
  }

  function draw() {
    const seen = given.series.filter((one) => !hidden.has(one.name));
    const sums = kind === "line" ? seen.map((one) => one.values) : stacked(seen);
    const values = [given.x, ...sums];
    const shape = JSON.stringify([seen.map((one) => [one.name, one.colour]), given.step, style("--text")]);
    const latest = seen.map((one) => `${one.name} ${format(one.values.findLast((value) => value !== null) ?? null)}`);
    plot.setAttribute("aria-label", `${title}. Newest: ${latest.slice(0, 6).join(", ") || "nothing"}. Data below.`);
    if (drawn && drawn.shape === shape) {
      drawn.plot.setData(values);
      return;
    }
    drawn?.plot.destroy();
    drawn = null;
    if (!seen.length || !given.x.length) return;
    drawn = { shape, plot: new uPlot(options(seen), values, plot) };
    if (open) drawn.plot.over.addEventListener("click", () => pressed(drawn.plot));
  }

  function options(seen) {
    const [muted, grid] = [style("--muted"), style("--grid")];
    const font = `11px ${style("--font")}`;
    const single = seen.length === 1;
    const edge = kind === "bars" && given.x.length > 1 ? (given.x[1] - given.x[0]) / 2 : 0; // so that no bar is cut
    const series = seen.map((one) => ({
      stroke: one.colour,
      width: kind === "bars" ? 0 : 1.6,
      fill: kind === "line" ? undefined : tint(one.colour, kind === "bars" ? 0.9 : single ? 0.16 : 0.42),
      paths: kind === "bars" ? uPlot.paths.bars({ size: [0.72, 26], radius: single ? 0.18 : 0 }) : undefined,
      points: { show: kind === "line", size: 5, fill: one.colour, filter: alone },
    }));
    // Each band is what a series adds to those below it.
    const bands = kind === "line" ? [] : seen.slice(1).map((_, n) => ({ series: [n + 2, n + 1] }));
    return {
      ...size(),
      padding: [8, 14, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      series: [{}, ...series],
      bands,
      scales: { x: { time: true, range: (_, low, high) => [low - edge, high + edge] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.12 : 1] } },
      axes: [
        { stroke: muted, font, size: 26, gap: 4, grid: { show: false }, ticks: { show: false }, space: 72, values: times },
        {
          stroke: muted, font, gap: 6, ticks: { show: false }, grid: { stroke: grid, width: 1 }, space: 40,
          size: 58, values: (_, splits) => splits.map((value) => format(value)),
        },
      ],
      hooks: { setCursor: [point], setSize: [() => { tip.hidden = true; }] },
    };
  }

  /** Points with nothing beside them: no line shows them. */
  function alone(self, series) {
    const values = self.data[series];
    const empty = (value) => value === null || value === undefined;
    return values.flatMap((value, n) => (!empty(value) && empty(values[n - 1]) && empty(values[n + 1]) ? [n] : []));
  }

  function point(self) {
    const { idx, left } = self.cursor;
    if (idx === null || idx === undefined || left < 0) {
      tip.hidden = true;
      return;
    }
    const seen = given.series.filter((one) => !hidden.has(one.name));
    const rows = seen.filter((one) => one.values[idx] !== null && (one.values[idx] !== 0 || seen.length === 1));
    fill(
      tip,
      h("p", inFull(given.x[idx] * 1000)),
      rows.slice().reverse().map((one) => {
        const swatch = h("i");
        swatch.style.background = one.colour;
        return h("div", swatch, h("span", one.name), h("b", format(one.values[idx])));
      }),
      rows.length === 0 && h("div", "nothing"),
    );
    tip.hidden = false;
    const at = left + self.over.offsetLeft;
    const beyond = at + tip.offsetWidth + 16 > plot.clientWidth;
    tip.style.left = `${Math.max(0, beyond ? at - tip.offsetWidth - 12 : at + 12)}px`;
  }

  /** The address of what is behind point `n`, of the series that the mouse is on where its height tells. */
  function behind(n, name = null) {
    const [at, step] = [given.x[n], given.x.length > 1 ? given.x[1] - given.x[0] : 60];
    return open(at, given.x[n + 1] ?? at + step, name);
  }

  function pressed(self) {
    const { idx, top } = self.cursor;
    if (idx === null || idx === undefined) return;
    const seen = given.series.filter((one) => !hidden.has(one.name));
    const sums = kind === "line" ? [] : stacked(seen);
    const here = seen[sums.findIndex((values) => values[idx] >= self.posToVal(top, "y"))];
    location.hash = behind(idx, here?.name ?? null);
  }

  function tabulate() {
    if (table.hidden || !given) return;
    const first = Math.max(0, given.x.length - ROWS);
    fill(
      table,
      h(
        "table",
        h("caption", `${title}, the newest ${Math.min(ROWS, given.x.length)} points`),
        h("thead", h("tr", h("th", { scope: "col" }, "Time"), given.series.map((one) => h("th", { scope: "col" }, one.name)))),
        h(
          "tbody",
          given.x.slice(first).map((at, n) => h(
            "tr",
            h("th", { scope: "row" }, open ? h("a", { href: behind(first + n) }, inFull(at * 1000)) : inFull(at * 1000)),
            given.series.map((one) => h("td", format(one.values[first + n]))),
          )).reverse(),
        ),
      ),
    );
  }

  return {
    element,
    show,
    /** The first figures are being fetched. */
    loading: () => say("Loading…"),
    /** They can't be had; what was drawn before stays. */
    failed: (text) => { if (!given) say(text, true); },
    redraw: () => { if (given) { legend.dataset.names = ""; show(given); } },
  };
}

function stacked(series) {
  let below = null;
  return series.map((one) => {
    below = one.values.map((value, n) => (value ?? 0) + (below?.[n] ?? 0));
    return below;
  });
}

function times(self, splits, _axis, _space, step) {
  const options = step >= 86_400 ? { day: "numeric", month: "short" } : { hour: "numeric", minute: "2-digit" };
  const format = new Intl.DateTimeFormat(undefined, options);
  const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  const span = self.scales.x.max - self.scales.x.min;
  return splits.map((at) => {
    const when = new Date(at * 1000);
    const midnight = when.getHours() === 0 && when.getMinutes() === 0;
    return (span > 100_000 && midnight ? date : format).format(when);
  });
}

function tint(hex, alpha) {
  const parts = hex.match(/[0-9a-f]{2}/gi).map((two) => parseInt(two, 16));
  return `rgba(${parts.join(",")},${alpha})`;
}

/** A small line, from the first value that is known, as high as the greatest or `least`; decoration, so not told to screen readers. */
export function sparkline(canvas, values, least = 1e-12) {
  const ratio = globalThis.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width) return;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const top = Math.max(...values, least);
  const x = (n) => (n / Math.max(1, values.length - 1)) * width;
  const y = (value) => height - 1.5 - (value / top) * (height - 4);
  pen.beginPath();
  const first = Math.max(0, values.findIndex((value) => value !== null));
  values.slice(first).forEach((value, n) => pen.lineTo(x(first + n), y(value)));
  pen.strokeStyle = style("--accent");
  pen.lineWidth = 1.4;
  pen.lineJoin = "round";
  pen.stroke();
  pen.lineTo(width, height);
  pen.lineTo(x(first), height);
  pen.fillStyle = tint(style("--accent"), 0.1);
  pen.fill();
}
