// The figures of now, each with a small line of the last 15 minutes.

import { sparkline } from "./chart.js";
import { h } from "./dom.js";
import { count, dollars, exact, rate } from "./format.js";

export function makeTiles() {
  return {
    tokens: tile("Tokens/s", "tokens"),
    turns: tile("Turns/min", "turns"),
    open: tile("Open runs", "open"),
    errors: tile("Errors", "errors"),
    cost: tile("Cost", "cost"),
    events: tile("Events/s", "events"),
  };
}

function tile(title, id) {
  const value = h("dd.value", { id: `tile-${id}` }, "–");
  const note = h("dd.under", " ");
  const line = h("canvas.spark", { "aria-hidden": "true" });
  return { element: h("dl.card.tile", h("dt", title), value, note, line), value, note, line };
}

export function showTiles(tiles, figures) {
  if (!figures.now) return;
  const sums = (fields) => figures.steps(fields, 15).groups.reduce(
    (all, [, values]) => values.map((value, n) => value + (all[n] ?? 0)), new Array(60).fill(0),
  );
  const set = ({ value, note, line }, text, under, values) => {
    value.textContent = text;
    note.textContent = under;
    if (values) sparkline(line, values);
  };
  const tokens = ["input_tokens", "output_tokens"];
  set(tiles.tokens, rate(figures.sum(tokens, 10) / 10), `${count(figures.sum(tokens, 900))} in 15 min`, sums(tokens));
  set(tiles.turns, exact(figures.sum(["turns"], 60)), `${exact(figures.sum(["turns"], 900))} in 15 min`, sums(["turns"]));
  set(tiles.open, exact(figures.open), "being assembled now", figures.opens());
  const [errors, interrupted] = [figures.sum(["errors"], 900), figures.sum(["interrupted"], 900)];
  set(tiles.errors, exact(errors), `${exact(interrupted)} interrupted in 15 min`, sums(["errors"]));
  tiles.errors.element.classList.toggle("bad", errors > 0);
  const cost = figures.sum(["cost_nano_usd"], 900) / 1e9;
  set(tiles.cost, dollars(cost), `in 15 min; ${dollars(cost * 4)}/h`, sums(["cost_nano_usd"]));
  set(tiles.events, rate(figures.sum(["events"], 10) / 10), `${count(figures.sum(["events"], 900))} in 15 min`, sums(["events"]));
}
