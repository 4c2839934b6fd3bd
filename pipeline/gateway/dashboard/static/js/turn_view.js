// A turn as an element: who spoke, what was said and done, what it took.

import { costView } from "./cost.js";
import { fill, h, icon } from "./dom.js";
import { count, dollars, duration, exact, inFull, moment } from "./format.js";
import { partView, RETURNS, systemEvent } from "./parts.js";
import { stepsView } from "./steps.js";
import { timelineView } from "./timeline.js";

/** Turns of runs that another run of this thread started go below it. */
export function nested(turns) {
  const nodes = turns.map((turn) => ({ turn, below: [] }));
  const byRun = new Map();
  for (const node of nodes) if (node.turn.turn_type === "agent") byRun.set(node.turn["meta:run_id"], node);
  return nodes.filter((node) => {
    const parent = byRun.get(node.turn["meta:parent"]?.run_id);
    if (!parent || parent === node || isBelow(node, parent)) return true;
    parent.below.push(node);
    return false;
  });
}

function isBelow(node, wanted) {
  return node.below.some((one) => one === wanted || isBelow(one, wanted));
}

/** A node of `nested` -> element. `view`: {document, usage, signal, address: turn id -> its link, asked, again, versions: turn -> elements or null; compared: turn and usage, adding: turn, likewise; judged: turn, or turn and place of a message, likewise}. */
export function turnView({ turn, below }, view) {
  const id = turn["meta:turn_id"];
  const isUser = turn.turn_type === "user";
  const agent = view.document.agents?.[turn.agent_id];
  const name = isUser ? "User" : agent?.agent_name ?? turn.agent_id;
  return h(
    isUser ? "article.turn.user" : "article.turn.agent",
    { "aria-label": name, id: id && `turn-${id}` },
    header(turn, name, agent, view),
    isUser ? [turn.parts.map((part) => partView(part, new Map(), view.signal)), view.adding(turn)] : answer(turn, below, view),
  );
}

function header(turn, name, agent, view) {
  const id = turn["meta:turn_id"];
  const models = [...new Set((turn.messages ?? []).map((one) => one.model_name).filter(Boolean))];
  const at = turn.turn_type === "user" ? turn.submitted_at : turn.started_at;
  return h(
    "header",
    h("b", name),
    turn.turn_type !== "user" && h("span.muted", models.join(", ") || agent?.model_name),
    view.versions(turn),
    id ? h("a.when", { href: view.address(id), "aria-label": `Link to this turn, ${moment(at)}` }, time(at)) : time(at),
    turn.completion_status === "interrupted" && h("span.chip.bad", "interrupted"),
    turn["meta:stopped_by"] && h("span.muted", `stopped by ${turn["meta:stopped_by"].by}`),
    turn["meta:answered_by"] && h("span.muted", `answered by ${[...new Set(turn["meta:answered_by"].map((one) => one.by))].join(", ")}`),
  );
}

function answer(turn, below, view) {
  const took = Date.parse(turn.completed_at ?? turn.interruption?.interrupted_at) - Date.parse(turn.started_at);
  const mine = view.usage[turn["meta:turn_id"]];
  const told = mine ?? turn.total_usage;
  const used = told?.input_tokens || told?.output_tokens ? told : null; // a run may say nothing of its tokens
  return [
    view.asked(turn),
    messages(turn, view.signal, (n) => view.judged(turn, n)),
    unfinished(turn, view.signal),
    turn.completion_status === "interrupted" && interruption(turn),
    view.again(turn),
    view.compared(turn, view.usage),
    view.judged(turn),
    view.adding(turn),
    below.length > 0 && h("div.below", { role: "group", "aria-label": "Sub-agents" }, below.map((one) => turnView(one, view))),
    mine?.steps.length > 1 && stepsView(mine.steps),
    view.steps && timelineView(view.steps, view.request, turn["meta:turn_id"]),
    h(
      "footer",
      took > 0 && h("span", duration(took)), // all of it at one time: how long it took is not known
      used && h("span", { title: `${exact(used.input_tokens)} in, ${exact(used.output_tokens)} out` }, `${count(used.input_tokens)} → ${count(used.output_tokens)} tokens`),
      mine && used && costView(mine, { reason: true }),
      mine?.estimated_tokens > 0 && h("span", { title: ["It broke off before its usage came: an estimate", ...mine.prices].join("; ") }, `≈ ${count(mine.estimated_tokens)} tokens`, mine.estimated_cost_usd !== null && `, ≈ ${dollars(mine.estimated_cost_usd)}`),
      mine?.ttft_ms !== null && mine?.ttft_ms !== undefined && h("span", `first token ${duration(mine.ttft_ms)}`),
    ),
  ];
}

/** `judged`: the place of a message -> what stands below it. */
function messages(turn, signal, judged = () => null) {
  const all = Array.isArray(turn.messages) ? turn.messages : [];
  const returns = new Map();
  for (const message of all) {
    for (const part of message.parts ?? []) {
      if (RETURNS.has(part.part_kind) && part.tool_call_id) returns.set(part.tool_call_id, part);
    }
  }
  const elements = [];
  for (const [n, message] of all.entries()) {
    if (message.message_type === "system") elements.push(systemEvent(message));
    for (const part of message.parts ?? []) {
      // The result is shown with its call; one that has no call stays in its place.
      const result = RETURNS.has(part.part_kind) && part.tool_call_id;
      if (result && returns.get(part.tool_call_id) !== part) continue;
      elements.push(partView(part, returns, signal));
      if (result) returns.delete(part.tool_call_id);
    }
    const below = judged(n);
    if (below) elements.push(below);
  }
  return elements;
}

/** What the turn had shown when it broke off, and does not keep. */
function unfinished(turn, signal) {
  const shown = messages({ messages: turn["meta:partial"]?.messages }, signal);
  return shown.length > 0 && h("section.partial", { "aria-label": "Not finished" }, h("span.chip.warn", { title: "Shown before the turn broke off; no part of the conversation" }, "not finished"), shown);
}

function interruption(turn) {
  const { reason, interrupted_at: at, ...more } = turn.interruption ?? {};
  const words = [more.message, more.detail, more.error].find((one) => typeof one === "string");
  return h("p.notice", icon("alert"), h("span", "Interrupted: ", h("b", String(reason ?? "unknown")), words && ` – ${words}`, at && h("span.muted", ` at ${moment(at)}`)));
}

function time(value) {
  return h("time.muted", { datetime: String(value), title: inFull(value) }, moment(value));
}

/** Opens what is folded around an element, brings it into view, and gives it the focus. */
export function reveal(element) {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  element.setAttribute("tabindex", "-1");
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "start" });
}

/** Brings an element to the top, and again for some frames: turns above it that are drawn then have other heights than was reckoned (style.css). */
export function hold(element, frames = 3) {
  element?.scrollIntoView({ block: "start" });
  if (frames) requestAnimationFrame(() => hold(element, frames - 1));
}

/** Puts what `build` makes into `place`; what was unfolded there stays unfolded, and a field that has an id keeps the focus. */
export function showTurns(place, build) {
  const keys = (root) => [...root.querySelectorAll(".turn")].flatMap((turn) => [...turn.querySelectorAll("details.fold")].filter((fold) => fold.closest(".turn") === turn).map((fold, n) => [`${turn.id} ${n}`, fold]));
  const unfolded = new Set(keys(place).filter(([, fold]) => fold.open).map(([key]) => key));
  const field = place.contains(document.activeElement) ? document.activeElement : null;
  const selected = [field?.selectionStart, field?.selectionEnd];
  fill(place, build());
  const now = field?.id && document.getElementById(field.id);
  if (now) {
    now.focus({ preventScroll: true });
    if (Number.isInteger(selected[0])) now.setSelectionRange(...selected);
  }
  for (const [key, fold] of keys(place)) fold.open = unfolded.has(key);
}
