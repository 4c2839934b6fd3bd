// The list of threads: searched, filtered and sorted by the gateway, a page at a time.

import * as api from "./api.js";
import { narrowing } from "./controls.js";
import { fill, h } from "./dom.js";
import { LABELS, namesUsed } from "./filters.js";
import { count, dollars, duration, exact, inFull, many, moment, nameOf } from "./format.js";
import { feedbackNames } from "./rated.js";
import { threadsOrSaid } from "./search.js";

const TIMES = [["", "Any time"], ["900", "Last 15 minutes"], ["3600", "Last hour"], ["86400", "Last day"], ["604800", "Last week"], ["2592000", "Last 30 days"]];
const STATES = [["", "Any status"], ["complete", "Complete"], ["interrupted", "Interrupted"]];
const COSTS = [["", "Any cost"], ["0.01", "From $0.01"], ["0.1", "From $0.10"], ["1", "From $1"], ["10", "From $10"]];
// The columns: class, title, and what the gateway sorts by.
const COLUMNS = [
  ["title", "Thread"], ["who", "Agents"], ["model", "Model"], ["turns", "Turns", "turns"], ["tokens", "Tokens", "tokens"],
  ["cost", "Cost", "cost"], ["judgements", "Feedback"], ["took", "Last turn took", "duration"], ["when", "Updated", "updated"],
];
const PAGE = 50;
const SHOWN = 2; // labels of a kind in a line
const EVERY = 3000; // ms between two looks at what is new, while the first page is shown

export function threads(main, signal, query, state) {
  const none = Object.fromEntries(LABELS.map((kind) => [kind, ""]));
  const empty = { ...none, search: "", agent: "", model: "", tenant: "", tool: "", feedback: "", status: "", cost: "", time: "", from: "", to: "", sort: "" };
  const wanted = { ...empty, ...Object.fromEntries(query) };
  const { typed, choice, named, change } = narrowing("/threads", wanted, () => { sorted(); load(true); });
  const names = namesUsed(signal);
  const heads = h("div.heads", { role: "group", "aria-label": "Sort by" });
  const list = h("ul.rows.threads");
  const message = h("p.state", { role: "status" });
  const more = h("button.quiet", { type: "button", hidden: true }, "Load more");
  const card = h("section.card", { "aria-label": "Threads" }, heads, list, message, h("div.foot", more));
  let cursor = null;
  let among = null; // so many threads are sorted
  let asked = null; // AbortController of the newest question
  let held = new Map(); // address -> {text, element}: rows that did not change stay as they are

  fill(
    main,
    h("div.controls", h("h1", "Threads"), threadsOrSaid("threads"), h(
      "form.filters",
      { role: "search" },
      typed("Search", "search", "Title, first words, or an id", 200),
      typed("Agent", "agent", "Name or id", 200),
      named("Model", "model", "Any model", names.then((found) => found?.model)),
      named("Tenant", "tenant", "Any tenant", names.then((found) => found?.tenant)),
      LABELS.map((kind) => named(kind[0].toUpperCase() + kind.slice(1), kind, `Any ${kind}`, names.then((found) => found?.[kind]))),
      typed("Tool", "tool", "Name", 200),
      named("Feedback", "feedback", "Any feedback", feedbackNames(wanted.tenant || null, signal).then((found) => found.flatMap((name) => [`${name}<0.5`, `${name}>=0.5`]))),
      choice("Status", "status", STATES),
      choice("Cost", "cost", COSTS),
      choice("Updated", "time", TIMES),
    )),
    wanted.from && h("p.note", `Threads that were there from ${inFull(wanted.from)} to ${inFull(wanted.to)}. `, h("a", { href: api.threadsAddress({ ...wanted, from: "", to: "" }) }, "At any time")),
    card,
  );
  main.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => load(false));
  sorted();
  load(true);
  refresh();

  function sorted() {
    const by = wanted.sort || "updated";
    fill(heads, COLUMNS.map(([name, title, sort]) => (sort
      ? h(`button.quiet.${name}`, { type: "button", "aria-pressed": String(sort === by), onclick: () => change("sort", sort === "updated" ? "" : sort) }, title)
      : h(`span.${name}`, title))));
  }

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
      among = page.sorted_among;
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
      limit: PAGE, cursor: after, min_cost: wanted.cost || null,
      ...Object.fromEntries(["search", "agent", "model", "tenant", "tool", "feedback", "status", "sort", ...LABELS].map((name) => [name, wanted[name] || null])),
      since: wanted.time ? Date.now() - Number(wanted.time) * 1000 : wanted.from || null,
      begun_before: wanted.time ? null : wanted.to || null,
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
    heads.hidden = !list.children.length;
    card.classList.toggle("with-feedback", threads.some((one) => one.feedback.length > 0));
    card.classList.toggle("with-comments", Boolean(wanted.feedback));
    const narrowed = Object.entries(wanted).some(([name, value]) => value && name !== "sort");
    const said = among ? [`Sorted among the ${exact(among)} that were updated last`] : [];
    message.replaceChildren(...(list.children.length ? said : narrowed ? ["No thread is like that"] : nothingYet()));
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
      h("span.cut", thread.agents.join(", ")),
      thread.tenant && h("span.chip", thread.tenant),
      thread.status === "interrupted" && h("span.chip.warn", "interrupted"),
      h("span.labels", LABELS.flatMap((kind) => (thread.labels[kind] ?? []).slice(0, SHOWN).map((label) => h("span.chip", { title: kind }, label)))),
    ),
    h("span.muted.model.cut", thread.model),
    h("span.num.muted.turns", { title: many(thread.turns, "turn") }, exact(thread.turns)),
    h("span.num.muted.tokens", { title: thread.tokens ? `${exact(thread.tokens)} tokens` : "Nobody said how many" }, count(thread.tokens || null)),
    h("span.num.muted.cost", { title: thread.cost_usd === null ? "No price is known" : "Cost" }, dollars(thread.cost_usd)),
    h("span.judgements", thread.feedback.map(judgement)),
    h("span.num.muted.took", duration(thread.duration_ms)),
    h("time.num.muted.when", { datetime: new Date(thread.updated_at).toISOString(), title: inFull(thread.updated_at) }, moment(thread.updated_at)),
  ));
}

/** What was said, with the comment where the list is of such feedback (style.css). */
function judgement({ name, value, comment, by }) {
  const words = { true: "yes", false: "no" }[value] ?? String(value);
  return h("span.judgement", { title: [by, comment].filter(Boolean).join(": ") }, h(value === false ? "span.chip.bad" : "span.chip", `${name}: ${words}`), comment && h("span.muted.comment", comment));
}
