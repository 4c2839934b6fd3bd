// One thread: a branch of it as it is stored, its sub-agents, and what its open runs say now.

import * as api from "./api.js";
import { againIn } from "./again.js";
import { askedIn } from "./asked.js";
import { judgedIn } from "./judged.js";
import { asMarkdown } from "./as_markdown.js";
import { attempt } from "./attempt.js";
import { copyButton, foldButton, saveButton } from "./buttons.js";
import { questions } from "./control.js";
import { comparedIn } from "./compare.js";
import { addingTo } from "./datasets.js";
import { costView } from "./cost.js";
import { fill, h } from "./dom.js";
import { finder } from "./find.js";
import { count, dollars, many, moment, nameOf } from "./format.js";
import { liveRuns } from "./live.js";
import { sharing } from "./share.js";
import { showTree } from "./sub_agents.js";
import { turnsView } from "./timeline.js";
import { hold, nested, reveal, showTurns, turnView } from "./turn_view.js";
import { versionsOf } from "./versions.js";

const PART = 100; // turns of a page
const BEFORE = 2; // turns that are shown before a linked one, which may answer them
const SOON = [1500, 5000, 15_000]; // ms after an answer has come, in which its turn is stored

export async function thread(main, signal, query, state, id) {
  const place = `/v1/threads/${encodeURIComponent(id)}`;
  const whose = { tenant: query.get("tenant") }; // null: nobody has said, and one tenant only should have it
  const branch = { branch: query.get("branch") ?? query.get("turn") ?? "" }; // empty: the newest
  const linked = query.get("turn");
  const shown = { turns: [], agents: {}, previous: null, next: null }; // some turns in a row, of all pages so far
  const head = h("div.thread-head", h("h1", "Thread"));
  const message = h("p.state", { role: "status" }, "Loading…");
  const earlier = h("button.quiet", { type: "button", hidden: true, onclick: () => extendInView("before") }, "Show earlier turns");
  const later = h("button.quiet", { type: "button", hidden: true, onclick: () => extendInView("after") }, "Show later turns");
  const overview = h("div");
  const turns = h("div.turns");
  const live = h("div.live");
  const asked = questions(id, whose, signal);
  const aside = h("aside.side", { "aria-label": "Sub-agents" });
  const adding = addingTo(place, whose, signal);
  const find = finder(turns, everything, signal);
  fill(main, h("p.crumbs", h("a", { href: "#/threads" }, "Threads"), " / ", h("span.cut", id)), head, h("div.thread", h("div", message, adding(null, "the whole thread"), sharing(place, whose, signal), overview, earlier, turns, later, asked.element, live), aside));

  const page = {
    address: (run) => api.threadAddress(encodeURIComponent(id), whose.tenant, { branch: run }),
    stay: (run) => (branch.branch ||= run),
    look: () => SOON.forEach((wait) => setTimeout(() => signal.aborted || load(), wait)),
  };
  const again = await againIn(place, whose, page, signal);
  const compared = comparedIn(place, whose, signal);
  let loading = null;
  let once = false; // more to load
  let extending = null;
  const open = liveRuns(id, whose, live, signal, state, () => load()); // a run has ended: its turn is stored soon
  await load();
  const target = linked && document.getElementById(`turn-${linked}`);
  if (target) {
    target.classList.add("linked");
    reveal(target);
  } else if (shown.previous) turns.lastElementChild?.scrollIntoView({ block: "end" }); // the newest first
  const ends = new IntersectionObserver((seen) => {
    for (const { target: end, isIntersecting } of seen) if (isIntersecting) extendInView(end === earlier ? "before" : "after");
  });
  [earlier, later].forEach((end) => ends.observe(end));
  signal.addEventListener("abort", () => ends.disconnect());

  function load() {
    once = loading !== null;
    loading ??= loadOnce().finally(() => {
      loading = null;
      if (once) load();
    });
    return loading;
  }

  function paged(more) {
    return api.json(place, { ...whose, ...branch, last: PART, feedback: true, ...more }, signal);
  }

  /** The first page: the newest turns, or those from a linked one on, and what it may answer. */
  async function first() {
    if (!linked) return paged({});
    const { turns: answered } = await paged({ before: linked, last: BEFORE + 1 });
    return paged({ after: answered.length > BEFORE ? answered[0]["meta:turn_id"] : "" });
  }

  /** Takes a page in beside what is shown; the newest one instead of all from its first turn on: an answer may have a new version. */
  function join(found, side) {
    const at = shown.turns.findIndex((turn) => turn["meta:turn_id"] === found.turns[0]?.["meta:turn_id"]);
    const before = { before: [], after: shown.turns }[side] ?? shown.turns.slice(0, Math.max(at, 0));
    if (side !== "before") shown.next = found.next;
    if (before.length === 0) shown.previous = found.previous;
    shown.turns = [...before, ...found.turns, ...(side === "before" ? shown.turns : [])];
    shown.agents = { ...shown.agents, ...found.agents };
    shown.document = { ...found, turns: shown.turns, agents: shown.agents };
  }

  /** One page at a time: whoever asks for another one meanwhile waits for this one. */
  function extend(side) {
    extending ??= extendOnce(side).finally(() => (extending = null));
    return extending;
  }

  async function extendOnce(side) {
    const turn = side === "before" ? shown.previous : shown.next;
    if (!turn) return;
    await attempt(message, signal, async () => {
      join(await paged({ [side]: turn }), side);
      show();
    });
  }

  /** What stood first stays in view when older turns come above it. */
  async function extendInView(side) {
    const first = turns.firstElementChild?.id;
    await extend(side);
    if (turns.firstElementChild?.id !== first) hold(document.getElementById(first));
  }

  async function everything() {
    for (let left = null; !signal.aborted && (shown.previous || shown.next) && left !== shown.turns.length; ) {
      left = shown.turns.length; // a page that doesn't come ends it
      await extend(shown.previous ? "before" : "after");
    }
  }

  async function loadOnce() {
    try {
      const [found, tree, usage] = await Promise.all([
        shown.turns.length ? (shown.next ? null : paged({})) : first(), // nothing new stands beside old turns
        api.json(`${place}/tree`, whose, signal).catch(() => null),
        api.json(`${place}/usage`, whose, signal).catch(() => ({ turns: {} })),
      ]);
      Object.assign(shown, { tree, usage });
      if (found) join(found);
      message.textContent = shown.turns.length ? "" : "This thread has no turns yet";
      show();
      asked.load();
      open.stored(new Set(shown.turns.filter((turn) => turn.turn_type === "agent").map((turn) => turn["meta:run_id"])));
    } catch (error) {
      if (signal.aborted) return;
      const coming = error.status === 404 && query.has("live");
      message.textContent = coming ? "Nothing of this thread is stored yet: its first run is still open." : error.message;
      if (error.status === 404 && !coming) fill(message, h("b", "No thread has this id."), " It may have been deleted, or have expired; or its address was cut off. ", h("a", { href: "#/threads" }, "To the list"));
      if (error.tenants) fill(message, "Several tenants have a thread with this id. Whose is meant? ", tenantLinks(id, error.tenants));
      message.classList.toggle("problem", !coming);
    }
  }

  function show() {
    const { document: found, tree, usage } = shown;
    const tenant = whose.tenant ?? tree?.thread.tenant;
    const address = (more) => api.threadAddress(encodeURIComponent(id), whose.tenant, more);
    const here = branch.branch || null;
    showHead(found, tree?.thread, usage.total, tenant);
    earlier.hidden = shown.previous === null;
    later.hidden = shown.next === null;
    const view = {
      document: found,
      usage: usage.turns,
      steps: askedOnce(() => api.json(`${place}/steps`, whose, signal)),
      request: (hash) => api.json(`/v1/requests/${encodeURIComponent(hash)}`, { tenant }, signal),
      signal,
      address: (turn) => address({ branch: here, turn }),
      asked: askedIn(found.turns, tenant, signal),
      again,
      compared,
      adding,
      judged: judgedIn(found, place, tenant, signal),
      versions: versionsOf(found.turns, (run) => address({ branch: run })),
    };
    const isOpen = overview.querySelector("details")?.open;
    fill(overview, found.turns.filter((turn) => turn.turn_type === "agent").length > 1 && turnsView(view.steps, view.address, isOpen));
    showTurns(turns, () => nested(found.turns).map((node) => turnView(node, view)));
    showTree(aside, tree, found, whose.tenant);
    main.classList.toggle("narrow", aside.hidden);
  }

  function showHead(found, summary, used, tenant) {
    const isPart = shown.previous !== null || shown.next !== null;
    const outside = found.metadata?.["meta:external_id"] ?? summary?.external_id;
    const title = found.title || summary?.title || outside || nameOf({ agents: Object.values(found.agents ?? {}).map((one) => one.agent_name) });
    document.title = `${title} · Turnmill`;
    const kept = head.contains(find) && head.contains(document.activeElement) ? document.activeElement : null;
    fill(
      head,
      h("h1", title),
      h(
        "div.facts",
        tenant && h("span.chip", tenant),
        outside && outside !== id && h("span", h("span.muted", "conversation "), h("code", outside)),
        h("span", many(isPart && summary ? summary.turns : found.turns.length, "turn")),
        h("span", `${count(summary?.tokens ?? used?.total_tokens)} tokens`),
        used?.total_tokens > 0 && costView(used),
        used?.estimated_cost_usd > 0 && h("span.muted", { title: "Of what broke off before its usage came" }, `≈ ${dollars(used.estimated_cost_usd)} more`),
        h("span.muted", `updated ${moment(found.updated_at)}`),
      ),
      h(
        "div.actions",
        find,
        foldButton(overview, turns),
        copyButton("Copy link", () => `${location.origin}${location.pathname}${api.threadAddress(found.thread_id, tenant)}`),
        copyButton("Copy as Markdown", async () => asMarkdown(isPart ? await api.json(place, { ...whose, ...branch }, signal) : found, title)),
        saveButton("Save as JSON", `${found.thread_id}.json`, () => api.blob(place, whose, signal)),
      ),
    );
    kept?.focus({ preventScroll: true });
  }
}

function tenantLinks(id, tenants) {
  return tenants.map((tenant) => [h("a", { href: api.threadAddress(encodeURIComponent(id), tenant) }, tenant || "no tenant's"), " "]);
}

/** What is asked for is asked for once. */
function askedOnce(ask) {
  let answer = null;
  return () => { answer ??= ask(); return answer; };
}
