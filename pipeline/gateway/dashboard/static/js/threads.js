// The list of threads: searched and filtered by the gateway, a page at a time.

import * as api from "./api.js";
import { narrowing } from "./controls.js";
import { fill, h } from "./dom.js";
import { count, exact, inFull, many, moment, nameOf } from "./format.js";
import { threadsOrSaid } from "./search.js";

const TIMES = [["", "Any time"], ["3600", "Last hour"], ["86400", "Last day"], ["604800", "Last week"], ["2592000", "Last 30 days"]];
const STATES = [["", "Any status"], ["complete", "Complete"], ["interrupted", "Interrupted"]];
const PAGE = 50;
const EVERY = 3000; // ms between two looks at what is new, while the first page is shown

export function threads(main, signal, query, state) {
  const wanted = { search: "", agent: "", status: "", time: "", ...Object.fromEntries(query) };
  const { typed, choice } = narrowing("/threads", wanted, () => load(true));
  const list = h("ul.rows.threads");
  const message = h("p.state", { role: "status" });
  const more = h("button.quiet", { type: "button", hidden: true }, "Load more");
  let cursor = null;
  let asked = null; // AbortController of the newest question
  let held = new Map(); // address -> {text, element}: rows that did not change stay as they are

  fill(
    main,
    h("div.controls", h("h1", "Threads"), threadsOrSaid("threads"), h(
      "form.filters",
      { role: "search" },
      typed("Search", "search", "Title, first words, or an id", 200),
      typed("Agent", "agent", "Agent id", 200),
      choice("Status", "status", STATES),
      choice("Updated", "time", TIMES),
    )),
    h("section.card", { "aria-label": "Threads" }, list, message, h("div.foot", more)),
  );
  main.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => load(false));
  load(true);
  refresh();

  async function load(first) {
    asked?.abort();
    const mine = new AbortController();
    asked = mine;
    if (first) cursor = null;
    message.textContent = first && !list.children.length ? "Loading…" : "";
    more.disabled = true;
    try {
      const page = await ask(AbortSignal.any([signal, mine.signal]));
      const before = first ? 0 : list.children.length;
      show(first ? page.threads : [...shownThreads(), ...page.threads], page.cursor);
      if (!first) list.children[before]?.querySelector("a").focus();
    } catch (error) {
      if (error.name === "AbortError") return;
      message.textContent = error.message;
      message.classList.add("problem");
    }
    more.disabled = false;
    asked = null;
  }

  /** What is new comes by itself, as long as nobody has gone to a further page. */
  async function refresh() {
    while (!signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, EVERY));
      if (signal.aborted || asked || document.hidden || list.children.length > PAGE) continue;
      const question = JSON.stringify(wanted);
      try {
        const page = await ask(signal, null);
        if (!asked && question === JSON.stringify(wanted)) show(page.threads, page.cursor);
        state("live");
      } catch (error) {
        if (error.name !== "AbortError") state("lost");
      }
    }
  }

  function ask(until, after = cursor) {
    return api.json("/v1/threads", {
      limit: PAGE, cursor: after, search: wanted.search || null, agent: wanted.agent || null, status: wanted.status || null,
      since: wanted.time ? Date.now() - Number(wanted.time) * 1000 : null,
    }, until);
  }

  function shownThreads() {
    return [...held.values()].map(({ text }) => JSON.parse(text));
  }

  function show(threads, next) {
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    const rows = new Map();
    for (const thread of threads) {
      const text = JSON.stringify(thread);
      const address = api.threadAddress(thread.thread_id, thread.tenant);
      const known = held.get(address);
      rows.set(address, known?.text === text ? known : { text, element: row(thread) });
    }
    held = rows;
    const elements = [...rows.values()].map(({ element }) => element);
    if (elements.length !== list.children.length || elements.some((one, n) => one !== list.children[n])) {
      list.replaceChildren(...elements);
      if (focused) list.querySelector(`[href="${CSS.escape(focused.getAttribute("href"))}"]`)?.focus({ preventScroll: true });
    }
    cursor = next;
    more.hidden = !cursor;
    message.classList.remove("problem");
    const narrowed = wanted.search || wanted.agent || wanted.status || wanted.time;
    message.replaceChildren(...(list.children.length ? [] : narrowed ? ["No thread is like that"] : nothingYet()));
  }
}

function nothingYet() {
  return [h("b", "No thread is stored yet"), h("br"), "A first one: ", h("code", "turnmill publish examples/weather.sse --dialect vercel-ai")];
}

function row(thread) {
  return h("li", h(
    "a.row",
    { href: api.threadAddress(thread.thread_id, thread.tenant) },
    h(thread.title || thread.external_id ? "span.title" : "span.title.nameless", thread.title || thread.external_id || nameOf(thread)),
    h(
      "span.muted.who",
      thread.agents.join(", "),
      thread.tenant && h("span.chip", thread.tenant),
      thread.status === "interrupted" && h("span.chip.warn", "interrupted"),
    ),
    h("span.num.muted.turns", many(thread.turns, "turn")),
    h("span.num.muted.tokens", { title: `${exact(thread.tokens)} tokens` }, `${count(thread.tokens)} tokens`),
    h("time.num.muted", { datetime: new Date(thread.updated_at).toISOString(), title: inFull(thread.updated_at) }, moment(thread.updated_at)),
  ));
}
