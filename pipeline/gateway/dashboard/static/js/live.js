// What the open runs of a thread say, from the thread's live stream.

import { follow } from "./api.js";
import { h, icon } from "./dom.js";

const MOST = 20_000; // characters that are held of one run
const SOON = [1200, 3000, 8000]; // ms after the end of a run, in which its turn is stored

// What an event adds, in each dialect: [kind, text].
const vercel = (event) => {
  if (event.type === "text-delta") return ["text", event.delta];
  if (event.type === "reasoning-delta") return ["thinking", event.delta];
  return event.type === "tool-input-available" ? ["tool", event.toolName] : null;
};
const pydantic = (event) => {
  const kinds = { text: "text", thinking: "thinking" };
  if (event.event_kind === "part_start") return [kinds[event.part?.part_kind], event.part?.content];
  if (event.event_kind === "part_delta") return [kinds[event.delta?.part_delta_kind], event.delta?.content_delta];
  return event.event_kind === "function_tool_call" ? ["tool", event.part?.tool_name] : null;
};
const proxy = (event) => {
  const kinds = { text_delta: "text", thinking_delta: "thinking" };
  return kinds[event?.type] ? [kinds[event.type], event.delta] : null;
};
const agent = (event) => {
  if (event.type === "tool_execution_start") return ["tool", event.toolName];
  return event.type === "message_update" ? proxy(event.assistantMessageEvent) : null;
};
const sdk = (event) => {
  if (event.event === "message.delta") return ["text", event.data?.delta];
  return event.event === "tool.call" ? ["tool", event.data?.name ?? event.data?.toolName] : null;
};
const DIALECTS = { "vercel-ai": vercel, "pydantic-ai": pydantic, "pi-agent": agent, "pi-proxy": proxy, "agents-sdk": sdk };

/** Follows a thread's open runs into `place`; `ended` is called when the turn of one should be stored. */
export function liveRuns(path, place, signal, state, ended) {
  const cards = new Map();
  const done = new Set();

  follow(`${path}/live`, { replay: "open", wait: true }, ({ data }) => {
    const said = JSON.parse(data);
    if (done.has(said.run_id)) return;
    if (said.end) finish(said.run_id);
    else show(said);
  }, signal, state);

  function show({ run_id: run, agent_id: name, dialect, event }) {
    if (!cards.has(run)) cards.set(run, card(name));
    const found = cards.get(run);
    if (!found.element.isConnected) place.append(found.element);
    const [kind, text] = DIALECTS[dialect]?.(event) ?? [];
    if (typeof text === "string") found.add(kind, text);
  }

  function finish(run) {
    done.add(run);
    cards.get(run)?.over();
    for (const wait of SOON) setTimeout(() => { if (!signal.aborted && (wait === SOON[0] || cards.has(run))) ended(); }, wait);
  }

  return {
    /** These runs are stored: what is over of them is shown as a turn. */
    stored(runs) {
      for (const run of runs) {
        if (done.has(run) || cards.get(run)?.silent()) {
          cards.get(run)?.element.remove();
          cards.delete(run);
        }
      }
    },
  };
}

function card(name) {
  const status = h("span.chip.live", "streaming");
  const words = h("div.text", { "aria-live": "off" });
  const element = h("article.turn.agent.open", { "aria-label": `${name}, streaming` }, h("header", h("b", name), status), words);
  let last = null; // {kind, node}
  let size = 0;
  let at = Date.now();
  return {
    element,
    add(kind, text) {
      at = Date.now();
      size += text.length;
      if (size > MOST || !text) return;
      if (kind === "tool") {
        words.append(h("p.calling", icon("tool"), h("b", text)));
        last = null;
        return;
      }
      if (last?.kind !== kind) {
        last = { kind, node: h(kind === "thinking" ? "p.thought" : "p") };
        words.append(last.node);
      }
      last.node.append(text);
    },
    over() {
      status.textContent = "finishing";
    },
    silent: () => Date.now() - at > 5000,
  };
}
