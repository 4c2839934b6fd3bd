// Where the time of a turn went: its calls of models and of tools on a line of time, sub-agents' below the call that began them.

import { fill, h } from "./dom.js";
import { duration, many } from "./format.js";

/**
 * `load()`: the steps of all turns by id, asked for once somebody looks; `asked(hash)`: the body of a request. Rows out of
 * sight are not drawn (style.css).
 */
export function timelineView(load, asked, turn) {
  return folded("Timeline", "models and tools", load, (steps) => {
    const rows = flat(steps[turn] ?? []);
    const unknown = rows.filter(({ kind, request }) => kind === "model" && !request).length;
    const said = `${many(rows.length, "step")}. A dot marks what has no known end; the faint part of a model's line is the wait for its first token.`;
    return [drawn(rows, asked), unknown ? `${said} Which tools could be called is not known of ${many(unknown, "call")}.` : said];
  });
}

/** The turns of a thread, each a line as long as it took, which leads to the turn. `address(turn)`: of a turn by its id. */
export function turnsView(load, address, isOpen) {
  return folded("Timeline of all turns", "which of them took long", load, (steps) => {
    const turns = Object.entries(steps).map(([id, own]) => ({ id, own, all: flat(own), ...extent(own) }));
    const longest = Math.max(1, ...turns.map(({ from, to }) => to - from));
    return [turns.map((turn, n) => turnRow(turn, n, longest, address)), `${many(turns.length, "turn")} with steps.`];
  }, isOpen);
}

function turnRow({ id, own, all, from, to }, n, longest, address) {
  const tools = all.filter(({ kind }) => kind === "tool");
  const bar = h("span.step-bar.model");
  bar.style.width = `${(Math.max(0, to - from) / longest) * 100}%`;
  const what = [own.find(({ name }) => name)?.name, many(all.length - tools.length, "call"), tools.length && many(tools.length, "tool")];
  return h(
    "li",
    h("span.num.muted", String(n + 1)),
    h("a.cut", { href: address(id) }, what.filter(Boolean).join(", ")),
    h("span.step-line", bar),
    h("span.num", to > from ? duration(to - from) : ""),
  );
}

function folded(title, about, load, rowsOf, isOpen = false) {
  const list = h("ol", { "aria-label": `${title}: ${about}` });
  const said = h("p.muted.small", { role: "status" }, "Loading…");
  const view = h("details.fold.timeline", { open: isOpen }, h("summary", h("b", title), h("span.muted.cut", about)), list, said);
  view.addEventListener("toggle", async () => {
    if (!view.open || list.children.length) return;
    try {
      const [rows, text] = rowsOf(await load());
      list.replaceChildren(...rows);
      said.textContent = text;
    } catch (error) {
      said.textContent = error.message;
    }
  });
  return view;
}

function flat(steps, depth = 0) {
  return steps.flatMap((step) => [{ ...step, depth }, ...flat(step.steps ?? [], depth + 1)]);
}

/** The first and the last time of steps; from Infinity to -Infinity where none is known. */
function extent(steps) {
  const times = steps.flatMap(({ start, first_token: first, end }) => [start, first, end]).filter(Number.isFinite);
  return times.reduce(({ from, to }, time) => ({ from: Math.min(from, time), to: Math.max(to, time) }), { from: Infinity, to: -Infinity });
}

function drawn(rows, asked) {
  const { from, to } = extent(rows);
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
    const offered = step.request && offeredTools(step, calledBy(rows, n), asked);
    if (offered) name.append(offered.button);
    return h("li", h("span.num.muted", String(n + 1)), name, line, h("span.num", took), offered?.list);
  });
}

/** How often the response of row `n` calls each tool. */
function calledBy(rows, n) {
  const called = new Map();
  for (const { kind, name, depth } of rows.slice(n + 1)) {
    if (depth < rows[n].depth || (depth === rows[n].depth && kind === "model")) break;
    if (depth === rows[n].depth) called.set(name, (called.get(name) ?? 0) + 1);
  }
  return called;
}

/** A button that shows the tools that a step could call, numbered as the model was told them, and which it called. */
function offeredTools({ request }, called, asked) {
  const list = h("ol.offered", { hidden: true, "aria-label": "Tools of this step" });
  const button = h("button.quiet.small", { type: "button", "aria-expanded": "false" }, "Tools");
  button.addEventListener("click", async () => {
    list.hidden = !list.hidden;
    button.setAttribute("aria-expanded", String(!list.hidden));
    if (list.children.length) return;
    try {
      const names = toolNames(await asked(request));
      fill(list, names.map((name) => h("li", called.has(name) ? h("b", name) : name, called.has(name) && h("span.chip.live", called.get(name) > 1 ? `called ${called.get(name)} times` : "called"))));
      if (!names.length) fill(list, h("li.none", "It could call none"));
    } catch (error) {
      fill(list, h("li.none.problem", error.message));
    }
  });
  return { button, list };
}

/** The names of the tools in a request's body, in the form of any provider; a provider's own tools by their type. */
function toolNames(body) {
  const inner = body.request ?? body;
  const all = [inner.tools, inner.functions, inner.toolConfig?.tools].find(Array.isArray) ?? [];
  return all.flatMap((tool) => {
    const declared = tool?.functionDeclarations ?? tool?.function_declarations;
    if (Array.isArray(declared)) return declared.map(({ name }) => name);
    return tool?.function?.name ?? tool?.toolSpec?.name ?? tool?.name ?? tool?.type ?? Object.keys(tool ?? {})[0] ?? [];
  }).map(String);
}
