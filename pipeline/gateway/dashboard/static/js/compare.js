// Two answers side by side: those of asking again, or two versions of one that are stored.

import * as api from "./api.js";
import { h } from "./dom.js";
import { dollars, duration, exact } from "./format.js";
import { versionOf } from "./versions.js";

const ROWS = [
  ["Model", (one) => one.model ?? "–"],
  ["Status", (one) => [one.status, one.problem].filter(Boolean).join(": ")],
  ["Words", (one) => one.text || "–"],
  ["Tools", (one) => one.tools.join(", ") || "–"],
  ["Tokens", (one) => [one.input_tokens, one.output_tokens].map(exact).join(" → ")],
  ["Cost", (one) => (one.cost_usd === null ? "no price known" : dollars(one.cost_usd))],
  ["Time", (one) => duration(one.duration_ms)],
];

/** Two answers, {model, status, problem, text, tools, input_tokens, output_tokens, cost_usd, duration_ms} each -> a table. */
export function sideBySide(label, [left, right], [one, other]) {
  return h(
    "table.said-table", { "aria-label": label },
    h("thead", h("tr", h("td"), h("th", { scope: "col" }, left), h("th", { scope: "col" }, right))),
    h("tbody", ROWS.map(([name, cell]) => h("tr", h("th", { scope: "row" }, name), h("td", cell(one)), h("td", cell(other))))),
  );
}

/** -> a function: turn, and the usage of turns -> the fold that compares it with the version before it, or behind the first. */
export function comparedIn(place, whose, signal) {
  const folds = new Map(); // the same element each time, so that it stays open
  return (turn, usage) => {
    const { number, before, next } = versionOf(turn) ?? {};
    const run = before ?? next;
    if (!run) return null;
    const pair = `${turn["meta:turn_id"]} ${run}`;
    if (!folds.has(pair)) folds.set(pair, comparison(number, before ? number - 1 : number + 1, load));
    return folds.get(pair);

    async function load() {
      const found = await api.json(place, { ...whose, branch: run }, signal);
      const other = found.turns.find((one) => one.turn_type === "agent" && one["meta:run_id"] === run);
      if (!other) throw new Error("That version has no answer.");
      return [turn, other].map((one) => answerOf(one, usage[one["meta:turn_id"]]));
    }
  };
}

function comparison(number, other, load) {
  const body = h("div", { role: "status" }, "Loading…");
  const names = [number, other].map((n) => `version ${n}`);
  const fold = h("details.fold", { ontoggle: show }, h("summary", h("b", `Compare with ${names[1]}`), h("span.muted.cut", "side by side")), body);
  return fold;

  async function show() {
    if (!fold.open || body.firstElementChild) return;
    try {
      body.replaceChildren(sideBySide("Both versions", names, await load()));
    } catch (error) {
      body.textContent = error.message;
    }
  }
}

function answerOf(turn, used) {
  const responses = [...turn.messages, ...(turn["meta:partial"]?.messages ?? [])].filter((one) => one.message_type === "response");
  const parts = responses.flatMap((one) => one.parts ?? []);
  const took = (used?.steps ?? []).map((step) => step.duration_ms).filter((ms) => ms !== null);
  return {
    model: [...new Set(responses.map((one) => one.model_name).filter(Boolean))].join(", ") || null,
    status: turn.completion_status,
    problem: turn.interruption?.detail ?? turn.interruption?.reason,
    text: parts.filter((part) => part.part_kind === "text").map((part) => part.content).join(""),
    tools: parts.filter((part) => part.part_kind.endsWith("tool-call")).map((part) => part.tool_name),
    input_tokens: used?.input_tokens,
    output_tokens: used?.output_tokens,
    cost_usd: used?.cost_usd ?? null,
    duration_ms: took.length ? took.reduce((sum, ms) => sum + ms, 0) : null,
  };
}
