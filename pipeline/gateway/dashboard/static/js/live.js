// What the open runs of a thread say, from the thread's live stream.

import { follow, json } from "./api.js";
import { steerForm, stopButton } from "./control.js";
import { h, icon } from "./dom.js";

const MOST = 20_000; // characters that are held of one run
const EVERY = 15_000; // ms between two looks at which runs are open
const SOON = [1200, 3000, 8000]; // ms after the end of a run, in which its turn is stored

/** Follows a thread's open runs into `place`; `ended` is called when the turn of one should be stored. */
export function liveRuns(id, whose, place, signal, state, ended) {
  const path = `/v1/threads/${encodeURIComponent(id)}`;
  const cards = new Map();
  const done = new Set();

  follow(`${path}/live`, { ...whose, replay: "open", wait: true, shows: true }, ({ event, data }) => {
    if (event === "turnmill.restart") { // its runs come again from their beginnings
      [...cards.keys()].filter((run) => !done.has(run)).forEach(remove);
      return;
    }
    const said = JSON.parse(data);
    if (done.has(said.run_id)) return;
    if (said.end) finish(said.run_id);
    else show(said);
  }, signal, state);

  function show({ run_id: run, agent_id: name, shows }) {
    if (!cards.has(run)) {
      cards.set(run, card(name, [stopButton(id, run, whose.tenant, signal), steerForm(id, run, whose.tenant, signal)]));
      check();
    }
    const found = cards.get(run);
    if (!found.element.isConnected) place.append(found.element);
    for (const [kind, text] of shows) found.add(kind, text);
  }

  /** Shows commands to the runs that the worker still assembles, and removes the others: it has closed them without their `end`. */
  async function check() {
    const { runs } = await json("/v1/runs", { thread: id, ...whose }, signal).catch(() => ({}));
    for (const [run, shown] of runs ? cards : []) {
      const open = runs.find((one) => one.run_id === run);
      if (open) shown.command(!open.imported);
      else if (!done.has(run)) {
        remove(run);
        ended();
      }
    }
  }

  const looking = setInterval(() => cards.size && check(), EVERY);
  signal.addEventListener("abort", () => clearInterval(looking));

  function finish(run) {
    done.add(run);
    cards.get(run)?.over();
    for (const wait of SOON) setTimeout(() => { if (!signal.aborted && (wait === SOON[0] || cards.has(run))) ended(); }, wait);
    setTimeout(() => remove(run), 2 * SOON.at(-1)); // it may be of another branch than the one that is shown
  }

  function remove(run) {
    cards.get(run)?.element.remove();
    cards.delete(run);
  }

  return {
    /** These runs are stored: what is over of them is shown as a turn. */
    stored(runs) {
      for (const run of runs) {
        if (done.has(run) || cards.get(run)?.silent()) remove(run);
      }
    },
  };
}

/** `commands`: elements to command the run with, while it is open. */
function card(name, commands) {
  const status = h("span.chip.live", "streaming");
  const words = h("div.text", { "aria-live": "off" });
  const footer = h("footer", { hidden: true }, commands);
  const element = h("article.turn.agent.open", { "aria-label": `${name}, streaming` }, h("header", h("b", name), status), words, footer);
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
      for (const one of commands) for (const button of one.querySelectorAll("button, input")) button.disabled = true;
    },
    command: (may) => { footer.hidden = !may; },
    silent: () => Date.now() - at > 5000,
  };
}
