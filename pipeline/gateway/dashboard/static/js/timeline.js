// Where the time of a turn went: its calls of models and of tools on a line of time, sub-agents' below the call that began them.

import { h } from "./dom.js";
import { duration, many } from "./format.js";

/** `load()`: the steps of all turns by id, asked for once somebody looks. Rows out of sight are not drawn (style.css). */
export function timelineView(load, turn) {
  const list = h("ol", { "aria-label": "Timeline: models and tools" });
  const said = h("p.muted.small", { role: "status" }, "Loading…");
  const view = h("details.fold.timeline", h("summary", h("b", "Timeline"), h("span.muted.cut", "models and tools")), list, said);
  view.addEventListener("toggle", async () => {
    if (!view.open || list.children.length) return;
    try {
      const rows = flat((await load())[turn] ?? []);
      list.replaceChildren(...drawn(rows));
      said.textContent = `${many(rows.length, "step")}. A dot marks what has no known end; the faint part of a model's line is the wait for its first token.`;
    } catch (error) {
      said.textContent = error.message;
    }
  });
  return view;
}

function flat(steps, depth = 0) {
  return steps.flatMap((step) => [{ ...step, depth }, ...flat(step.steps ?? [], depth + 1)]);
}

function drawn(rows) {
  const times = rows.flatMap(({ start, first_token: first, end }) => [start, first, end]).filter(Number.isFinite);
  const [from, to] = times.reduce(([low, high], time) => [Math.min(low, time), Math.max(high, time)], [Infinity, -Infinity]);
  const share = (time) => (to > from ? (time - from) / (to - from) : 0);
  return rows.map((step, n) => {
    const begun = step.start ?? step.first_token ?? step.end;
    const line = h("span.step-line");
    if (begun !== null && begun !== undefined) {
      const bar = h(step.end === null ? `i.step-dot.${step.kind}` : `span.step-bar.${step.kind}`);
      bar.style.marginInlineStart = `${share(begun) * 100}%`;
      if (step.end !== null) bar.style.width = `${(share(step.end) - share(begun)) * 100}%`;
      if (step.end > begun && step.first_token > begun) {
        const wait = h("i.step-wait");
        wait.style.width = `${Math.min(1, (step.first_token - begun) / (step.end - begun)) * 100}%`;
        bar.append(wait);
      }
      line.append(bar);
    }
    const bad = !["complete", "success"].includes(step.status);
    const name = h("span.step-name", h("span.cut", step.name ?? step.kind), bad && h("span.chip.warn", step.status));
    name.style.paddingInlineStart = `${step.depth * 12}px`;
    const took = step.end !== null && step.start !== null ? duration(step.end - step.start) : "";
    return h("li", h("span.num.muted", String(n + 1)), name, line, h("span.num", took));
  });
}
