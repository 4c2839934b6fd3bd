// What was said, searched by the gateway: hits a page at a time, each a link to its turn.

import * as api from "./api.js";
import { narrowing, segmented } from "./controls.js";
import { fill, h } from "./dom.js";
import { inFull, moment } from "./format.js";

const TIMES = [["", "Any time"], ["86400", "Last day"], ["604800", "Last week"], ["2592000", "Last 30 days"], ["31536000", "Last year"]];
const ROLES = [["", "Anybody"], ["user", "Users"], ["agent", "Agents"]];
const PAGE = 20;
const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', "#x27": "'", "#39": "'" };

/** The switch between the list of threads and this view. */
export function threadsOrSaid(chosen, words = "") {
  return segmented("Look in", [["threads", "Threads", "#/threads"], ["said", "What was said", `#${api.url("/search", { q: words || null })}`]], chosen);
}

export function search(main, signal, query) {
  const wanted = { q: "", role: "", agent: "", time: "", ...Object.fromEntries(query) };
  const { typed, choice } = narrowing("/search", wanted, () => load(true));
  const list = h("ul.rows.hits");
  const message = h("p.state", { role: "status" });
  const more = h("button.quiet", { type: "button", hidden: true }, "Load more");
  let cursor = null;
  let asked = null; // AbortController of the newest question

  fill(
    main,
    h("div.controls", h("h1", "What was said"), threadsOrSaid("said", wanted.q), h(
      "form.filters",
      { role: "search" },
      typed("Search", "q", 'words, "a phrase", begin*, -without', 500),
      typed("Agent", "agent", "Agent id", 200),
      choice("Said by", "role", ROLES),
      choice("When", "time", TIMES),
    )),
    h("section.card", { "aria-label": "Hits" }, list, message, h("div.foot", more)),
  );
  main.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => load(false));
  load(true);

  async function load(first) {
    asked?.abort();
    const mine = new AbortController();
    asked = mine;
    if (first) cursor = null;
    message.classList.remove("problem");
    if (!wanted.q) {
      list.replaceChildren();
      more.hidden = true;
      message.textContent = "Type one or more words. A turn matches if it contains all of them.";
      return;
    }
    more.disabled = true;
    try {
      const page = await api.json("/v1/search", {
        q: wanted.q, limit: PAGE, cursor, role: wanted.role || null, agent: wanted.agent || null,
        since: wanted.time ? Date.now() - Number(wanted.time) * 1000 : null,
      }, AbortSignal.any([signal, mine.signal]));
      const rows = page.results.map(hit);
      if (first) list.replaceChildren(...rows);
      else list.append(...rows);
      if (!first) rows[0]?.querySelector("a").focus();
      cursor = page.next;
      more.hidden = !cursor;
      message.textContent = list.children.length ? "" : "Nobody has said that";
    } catch (error) {
      if (error.name === "AbortError") return;
      if (first) list.replaceChildren();
      more.hidden = true;
      message.textContent = error.message;
      message.classList.add("problem");
    }
    more.disabled = false;
    asked = null;
  }
}

function hit({ thread_id: thread, turn_id: turn, role, at, snippet, agent, title, tenant }) {
  return h("li", h(
    "a.row",
    { href: api.threadAddress(thread, tenant, { turn }) },
    h("span.found", h("span.snippet", marked(snippet)), h("span.muted.small.cut", [agent, title].filter(Boolean).join(" · "))),
    h("span.chip", role),
    h("time.num.muted", { datetime: new Date(at).toISOString(), title: inFull(at) }, moment(at)),
  ));
}

/** A snippet -> text and <mark> elements. It is escaped text with hits between marks, and nothing else is read as markup. */
function marked(snippet) {
  return snippet.split("<mark>").flatMap((piece, n) => {
    const [found, rest] = n ? piece.split("</mark>") : [null, piece];
    return [found !== null && h("mark", plain(found)), plain(rest ?? "")];
  });
}

function plain(text) {
  return text.replace(/&([a-z]+|#x?[0-9a-f]+);/gi, (whole, name) => ENTITIES[name.toLowerCase()] ?? whole);
}
