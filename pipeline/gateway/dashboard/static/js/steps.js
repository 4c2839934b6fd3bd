// The responses of a turn on a line of time: waiting, then streaming; what each used and cost.

import { costView } from "./cost.js";
import { h } from "./dom.js";
import { cost, count, duration } from "./format.js";

/** Steps of a turn's usage -> element. A step begins where the one before has ended: tools run in its waiting time. */
export function stepsView(steps) {
  const lengths = steps.map((step) => step.duration_ms ?? 0);
  const took = steps.some((step) => step.duration_ms !== null);
  const whole = lengths.reduce((sum, one) => sum + one, 0) || 1;
  const spent = cost(steps.reduce((sum, step) => sum + (step.cost_usd ?? 0), 0), steps.filter((step) => step.cost_usd === null).length);
  let from = 0;
  const rows = steps.map((step, n) => {
    const bar = span("span.step-bar", from / whole, lengths[n] / whole);
    const waited = Math.min(step.ttft_ms ?? 0, lengths[n]);
    bar.append(span("i.step-wait", 0, lengths[n] ? waited / lengths[n] : 0));
    from += lengths[n];
    return h(
      "li",
      h("span.num.muted", String(n + 1)),
      h("span.step-line", { title: step.duration_ms !== null && `waiting ${duration(waited)}, then streaming ${duration(lengths[n] - waited)}` }, bar),
      h("span.num", step.duration_ms === null ? "" : duration(lengths[n])),
      h("span.num.muted", `${count(step.input_tokens)} → ${count(step.output_tokens)}`),
      step.cost_usd === null && !step.unpriced ? h("span.num.muted", "–") : costView(step, { what: "span.num.muted" }),
      (step.purpose || step.service_tier) && h("span.step-more.muted", [step.purpose && `${step.purpose}, beside the answer`, step.service_tier && `tier ${step.service_tier}`].filter(Boolean).join("; ")),
    );
  });
  return h(
    "details.fold.steps",
    h("summary", h("b", `${steps.length} steps`), h("span.muted.cut", took ? `${duration(whole)}, ${spent}` : spent)),
    h("ol", { "aria-label": "Steps: time, tokens, cost" }, rows),
    h("p.muted.small", "The faint part of a line is the wait for the first token, tools included."),
  );
}

function span(what, from, width) {
  const element = h(what);
  element.style.marginInlineStart = `${from * 100}%`;
  element.style.width = `${width * 100}%`;
  return element;
}
