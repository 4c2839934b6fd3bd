// One thread: a branch of it as it is stored, its sub-agents, and what its open runs say now.

import * as api from "./api.js";
import { againIn } from "./again.js";
import { askedIn } from "./asked.js";
import { judgedIn } from "./judged.js";
import { asMarkdown } from "./as_markdown.js";
import { copyButton, foldButton, saveButton } from "./buttons.js";
import { questions } from "./control.js";
import { costView } from "./cost.js";
import { fill, h } from "./dom.js";
import { finder } from "./find.js";
import { count, dollars, exact, many, moment, nameOf } from "./format.js";
import { liveRuns } from "./live.js";
import { showTree } from "./sub_agents.js";
import { nested, reveal, showTurns, turnView } from "./turn_view.js";
import { versionsOf } from "./versions.js";

const PART = 100; // turns that are loaded at once
const SOON = [1500, 5000, 15_000]; // ms after an answer has come, in which its turn is stored

export async function thread(main, signal, query, state, id) {
  const place = `/v1/threads/${encodeURIComponent(id)}`;
  const whose = { tenant: query.get("tenant") }; // null: nobody has said, and one tenant only should have it
  const branch = { branch: query.get("branch") ?? query.get("turn") ?? "" }; // empty: the newest
  const wanted = { turns: PART, since_turn: query.get("turn") };
  const head = h("div.thread-head", h("h1", "Thread"));
  const message = h("p.state", { role: "status" }, "Loading…");
  const earlier = h("button.quiet", { type: "button", hidden: true });
  const turns = h("div.turns");
  const live = h("div.live");
  const asked = questions(id, whose, signal);
  const aside = h("aside.side", { "aria-label": "Sub-agents" });
  const find = finder(turns, () => (earlier.hidden ? null : everything()), signal);
  fill(main, h("p.crumbs", h("a", { href: "#/threads" }, "Threads"), " / ", h("span.cut", id)), head, h("div.thread", h("div", message, earlier, turns, asked.element, live), aside));

  const page = {
    address: (run) => api.threadAddress(encodeURIComponent(id), whose.tenant, { branch: run }),
    stay: (run) => (branch.branch ||= run),
    look: () => SOON.forEach((wait) => setTimeout(() => signal.aborted || load(), wait)),
  };
  const again = await againIn(place, whose, page, signal);
  let loading = null;
  let once = false; // more to load
  const open = liveRuns(id, whose, live, signal, state, () => load()); // a run has ended: its turn is stored soon
  earlier.addEventListener("click", () => {
    const from = turns.firstElementChild;
    wanted.turns += PART;
    load().then(() => from && document.getElementById(from.id)?.scrollIntoView({ block: "start" }));
  });
  await load();
  const linked = wanted.since_turn && document.getElementById(`turn-${wanted.since_turn}`);
  if (linked) {
    linked.classList.add("linked");
    reveal(linked);
  }

  function load() {
    once = loading !== null;
    loading ??= loadOnce().finally(() => {
      loading = null;
      if (once) load();
    });
    return loading;
  }

  function everything() {
    wanted.turns = null;
    wanted.since_turn = null;
    return load();
  }

  async function loadOnce() {
    try {
      const [found, tree, usage] = await Promise.all([
        api.json(place, { ...whose, ...branch, ...wanted, feedback: true }, signal),
        api.json(`${place}/tree`, whose, signal).catch(() => null),
        api.json(`${place}/usage`, whose, signal).catch(() => ({ turns: {} })),
      ]);
      message.textContent = found.turns.length ? "" : "This thread has no turns yet";
      show(found, tree, usage);
      asked.load();
      open.stored(new Set(found.turns.filter((turn) => turn.turn_type === "agent").map((turn) => turn["meta:run_id"])));
    } catch (error) {
      if (signal.aborted) return;
      const coming = error.status === 404 && query.has("live");
      message.textContent = coming ? "Nothing of this thread is stored yet: its first run is still open." : error.message;
      if (error.status === 404 && !coming) fill(message, h("b", "No thread has this id."), " It may have been deleted, or have expired; or its address was cut off. ", h("a", { href: "#/threads" }, "To the list"));
      if (error.tenants) fill(message, "Several tenants have a thread with this id. Whose is meant? ", tenantLinks(id, error.tenants));
      message.classList.toggle("problem", !coming);
    }
  }

  function show(found, tree, usage) {
    const tenant = whose.tenant ?? tree?.thread.tenant;
    const address = (more) => api.threadAddress(encodeURIComponent(id), whose.tenant, more);
    const here = branch.branch || null;
    const left = found["meta:earlier"] ?? 0;
    showHead(found, tree?.thread, usage.total, left, tenant);
    earlier.hidden = left === 0;
    earlier.textContent = `Show ${many(Math.min(PART, left), "earlier turn")}${left > PART ? ` of ${exact(left)}` : ""}`;
    const view = {
      document: found,
      usage: usage.turns,
      steps: askedOnce(() => api.json(`${place}/steps`, whose, signal)),
      signal,
      address: (turn) => address({ branch: here, turn }),
      asked: askedIn(found.turns, tenant, signal),
      again,
      judged: judgedIn(found, place, tenant, signal),
      versions: versionsOf(found.turns, (run) => address({ branch: run })),
    };
    showTurns(turns, () => nested(found.turns).map((node) => turnView(node, view)));
    showTree(aside, tree, found, whose.tenant);
    main.classList.toggle("narrow", aside.hidden);
  }

  function showHead(found, summary, used, left, tenant) {
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
        h("span", many(found.turns.length + left, "turn")),
        h("span", `${count(summary?.tokens ?? used?.total_tokens)} tokens`),
        used?.total_tokens > 0 && costView(used),
        used?.estimated_cost_usd > 0 && h("span.muted", { title: "Of what broke off before its usage came" }, `≈ ${dollars(used.estimated_cost_usd)} more`),
        h("span.muted", `updated ${moment(found.updated_at)}`),
      ),
      h(
        "div.actions",
        find,
        foldButton(turns),
        copyButton("Copy link", () => `${location.origin}${location.pathname}${api.threadAddress(found.thread_id, tenant)}`),
        copyButton("Copy as Markdown", async () => asMarkdown(left ? await api.json(place, { ...whose, ...branch }, signal) : found, title)),
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
