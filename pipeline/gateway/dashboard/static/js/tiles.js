// The figures of now, each with a small line of the last 15 minutes.

import { sparkline } from "./chart.js";
import { h } from "./dom.js";
import { cost, count, dollars, exact, rate } from "./format.js";

/** `address(more)` -> the list of the threads behind a figure. */
export function makeTiles(address) {
  return {
    tokens: tile("Tokens/s", "tokens", address({ sort: "tokens" })),
    turns: tile("Turns/min", "turns", address({})),
    open: tile("Open runs", "open"),
    errors: tile("Errors", "errors", address({ status: "interrupted" })),
    cost: tile("Cost", "cost", address({ sort: "cost" })),
    events: tile("Events/s", "events"),
  };
}

function tile(title, id, href) {
  const value = h("dd.value", { id: `tile-${id}` }, "–");
  const note = h("dd.under", " ");
  const line = h("canvas.spark", { "aria-hidden": "true" });
  return { element: h("dl.card.tile", h("dt", href ? h("a", { href, title: "The threads behind it" }, title) : title), value, note, line), value, note, line };
}

/** Without a broker, and before the last minutes are read, a sum of nothing would read as 0. */
export function unknown(figures) {
  return !figures.rows.size && Boolean(figures.trouble || figures.catchingUp);
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
  if (unknown(figures)) {
    for (const one of Object.values(tiles)) set(one, "–", figures.trouble ? "not known just now" : "being read");
    return;
  }
  const tokens = ["input_tokens", "output_tokens"];
  set(tiles.tokens, rate(figures.sum(tokens, 10) / 10), `${count(figures.sum(tokens, 900))} in 15 min`, sums(tokens));
  set(tiles.turns, exact(figures.sum(["turns"], 60)), `${exact(figures.sum(["turns"], 900))} in 15 min`, sums(["turns"]));
  set(tiles.open, exact(figures.open), "being assembled now", figures.opens());
  const [errors, interrupted] = [figures.sum(["errors"], 900), figures.sum(["interrupted"], 900)];
  set(tiles.errors, exact(errors), `${exact(interrupted)} interrupted in 15 min`, sums(["errors"]));
  tiles.errors.element.classList.toggle("bad", errors > 0);
  const [spent, unpriced] = [figures.sum(["cost_nano_usd"], 900) / 1e9, figures.sum(["unpriced"], 900)];
  const known = spent || !unpriced;
  const without = unpriced ? `${exact(unpriced)} responses without a price` : `in 15 min; ${dollars(spent * 4)}/h`;
  set(tiles.cost, known ? cost(spent, unpriced) : "–", without, sums(["cost_nano_usd"]));
  set(tiles.events, rate(figures.sum(["events"], 10) / 10), `${count(figures.sum(["events"], 900))} in 15 min`, sums(["events"]));
}
