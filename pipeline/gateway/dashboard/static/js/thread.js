// One thread: its turns as they are stored, its sub-agents, and what its open runs say now.

import * as api from "./api.js";
import { fill, h, icon, save } from "./dom.js";
import { count, dollars, duration, exact, inFull, many, moment } from "./format.js";
import { liveRuns } from "./live.js";
import { partView, RETURNS, systemEvent } from "./parts.js";

export async function thread(main, signal, query, state, id) {
  const place = `/v1/threads/${encodeURIComponent(id)}`;
  const whose = { tenant: query.get("tenant") }; // null: nobody has said, and one tenant only should have it
  const head = h("div.thread-head", h("h1", "Thread"));
  const message = h("p.state", { role: "status" }, "Loading…");
  const turns = h("div.turns");
  const live = h("div.live");
  const aside = h("aside.side", { "aria-label": "Sub-agents" });
  fill(main, h("p.crumbs", h("a", { href: "#/threads" }, "Threads"), " / ", h("span.cut", id)), head, h("div.thread", h("div", message, turns, live), aside));

  let loading = false;
  let again = false;
  const open = liveRuns(place, whose, live, signal, state, () => load()); // a run has ended: its turn is stored soon
  await load();

  async function load() {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    try {
      const [document_, tree, usage] = await Promise.all([
        api.json(place, whose, signal),
        api.json(`${place}/tree`, whose, signal).catch(() => null),
        api.json(`${place}/usage`, whose, signal).catch(() => ({ turns: {} })),
      ]);
      message.textContent = document_.turns.length ? "" : "This thread has no turns yet";
      show(document_, tree, usage.turns);
      open.stored(new Set(document_.turns.filter((turn) => turn.turn_type === "agent").map((turn) => turn["meta:run_id"])));
    } catch (error) {
      if (signal.aborted) return;
      const coming = error.status === 404 && query.has("live");
      message.textContent = coming ? "Nothing of this thread is stored yet: its first run is still open." : error.message;
      if (error.tenants) fill(message, "Several tenants have a thread with this id. Whose is meant? ", tenantLinks(id, error.tenants));
      message.classList.toggle("problem", !coming);
    } finally {
      loading = false;
      if (again) {
        again = false;
        load();
      }
    }
  }

  function show(found, tree, usage) {
    const summary = tree?.thread;
    const title = summary?.title || found.title || found.metadata?.["meta:external_id"] || "Untitled";
    document.title = `${title} · Threadmill`;
    const all = Object.values(usage);
    const total = (name) => all.reduce((sum, one) => sum + (one[name] ?? 0), 0);
    const outside = found.metadata?.["meta:external_id"] ?? summary?.external_id;
    fill(
      head,
      h("h1", title),
      h(
        "div.facts",
        summary?.tenant && h("span.chip", summary.tenant),
        outside && outside !== id && h("span", h("span.muted", "conversation "), h("code", outside)),
        h("span", many(found.turns.length, "turn")),
        h("span", `${count(summary?.tokens ?? total("total_tokens"))} tokens`),
        all.length > 0 && h("span", dollars(total("cost_usd"))),
        h("span.muted", `updated ${moment(found.updated_at)}`),
      ),
      h(
        "div.actions",
        foldButton(turns),
        copyButton("Copy link", () => `${location.origin}${location.pathname}${api.threadAddress(found.thread_id, whose.tenant ?? summary?.tenant)}`),
        saveButton("Save as JSON", `${found.thread_id}.json`, () => api.blob(place, whose, signal)),
      ),
    );
    const unfolded = new Set([...turns.querySelectorAll("details[open]")].map((one) => one.dataset.key));
    fill(turns, nested(found.turns).map((node) => turnView(node, found, usage, signal)));
    turns.querySelectorAll("details.fold").forEach((one, n) => {
      one.dataset.key = String(n);
      one.open = unfolded.has(one.dataset.key);
    });
    showTree(aside, tree, found, whose.tenant);
    main.classList.toggle("narrow", aside.hidden);
  }
}

function tenantLinks(id, tenants) {
  return tenants.map((tenant) => [h("a", { href: api.threadAddress(encodeURIComponent(id), tenant) }, tenant || "no tenant's"), " "]);
}

/** Turns of runs that another run of this thread started go below it. */
function nested(turns) {
  const nodes = turns.map((turn) => ({ turn, below: [] }));
  const byRun = new Map();
  for (const node of nodes) if (node.turn.turn_type === "agent") byRun.set(node.turn["meta:run_id"], node);
  return nodes.filter((node) => {
    const parent = byRun.get(node.turn["meta:parent"]?.run_id);
    if (!parent || parent === node || below(node, parent)) return true;
    parent.below.push(node);
    return false;
  });
}

function below(node, wanted) {
  return node.below.some((one) => one === wanted || below(one, wanted));
}

function turnView({ turn, below: children }, found, usage, signal) {
  const key = turn["meta:turn_id"];
  if (turn.turn_type === "user") {
    return h(
      "article.turn.user",
      { "aria-label": "User" },
      h("header", h("b", "User"), time(turn.submitted_at)),
      turn.parts.map((part) => partView(part, new Map(), signal)),
    );
  }
  const agent = found.agents?.[turn.agent_id];
  const models = [...new Set((turn.messages ?? []).map((one) => one.model_name).filter(Boolean))];
  const end = turn.completed_at ?? turn.interruption?.interrupted_at;
  const mine = usage[key];
  const used = mine ?? turn.total_usage;
  return h(
    "article.turn.agent",
    { "aria-label": agent?.agent_name ?? turn.agent_id },
    h(
      "header",
      h("b", agent?.agent_name ?? turn.agent_id),
      h("span.muted", models.join(", ") || agent?.model_name),
      time(turn.started_at),
      turn.completion_status === "interrupted" && h("span.chip.bad", "interrupted"),
    ),
    messages(turn, signal),
    unfinished(turn, signal),
    turn.completion_status === "interrupted" && interruption(turn),
    children.length > 0 && h("div.below", { role: "group", "aria-label": "Sub-agents" }, children.map((one) => turnView(one, found, usage, signal))),
    h(
      "footer",
      end && h("span", duration(Date.parse(end) - Date.parse(turn.started_at))),
      used && h("span", { title: `${exact(used.input_tokens ?? 0)} in, ${exact(used.output_tokens ?? 0)} out` }, `${count(used.input_tokens ?? 0)} → ${count(used.output_tokens ?? 0)} tokens`),
      mine && h("span", mine.cost_usd === null ? "no price known" : dollars(mine.cost_usd)),
      mine?.ttft_ms !== null && mine?.ttft_ms !== undefined && h("span", `first token ${duration(mine.ttft_ms)}`),
    ),
  );
}

function messages(turn, signal) {
  const all = Array.isArray(turn.messages) ? turn.messages : [];
  const returns = new Map();
  for (const message of all) {
    for (const part of message.parts ?? []) {
      if (RETURNS.has(part.part_kind) && part.tool_call_id) returns.set(part.tool_call_id, part);
    }
  }
  const elements = [];
  for (const message of all) {
    if (message.message_type === "system") elements.push(systemEvent(message));
    for (const part of message.parts ?? []) {
      // The result is shown with its call; one that has no call stays in its place.
      const answer = RETURNS.has(part.part_kind) && part.tool_call_id;
      if (answer && returns.get(part.tool_call_id) !== part) continue;
      elements.push(partView(part, returns, signal));
      if (answer) returns.delete(part.tool_call_id);
    }
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

function showTree(aside, tree, found, tenant) {
  const links = found.relationships?.links ?? [];
  const parents = links.filter((link) => link.relation === "spawned_from");
  const others = links.filter((link) => link.relation !== "spawned_from");
  const spawned = tree?.spawned ?? [];
  aside.hidden = !parents.length && !spawned.length && !others.length;
  if (aside.hidden) return;
  const linked = (link) => h("li", h("a", { href: api.threadAddress(link.thread_id, tenant ?? tree?.thread.tenant) }, `${link.relation.replaceAll("_", " ")} ${link.thread_id.slice(0, 8)}…`));
  fill(
    aside,
    h("section.card", h("h2", "Sub-agents"),
      parents.length > 0 && h("ul.tree", parents.map(linked)),
      h("ul.tree", branch({ thread: tree?.thread ?? { thread_id: found.thread_id }, spawned, more: tree?.more }, found.thread_id)),
      others.length > 0 && h("ul.tree", others.map(linked)),
    ),
  );
}

function branch(node, current) {
  const { thread: one, spawned } = node;
  const name = h("span.cut", one.title || one.external_id || one.thread_id);
  return h(
    "li",
    one.thread_id === current
      ? h("span.here", { "aria-current": "true" }, name)
      : h("a", { href: api.threadAddress(one.thread_id, one.tenant) }, name, h("span.muted.small", one.agents.join(", ")), one.status === "interrupted" && h("span.chip.warn", "interrupted")),
    (spawned.length > 0 || node.more) && h("ul", spawned.map((child) => branch(child, current)), node.more && h("li.muted", "and more")),
  );
}

/** Opens all that is folded, or closes it. */
function foldButton(place) {
  const label = h("span", "Unfold all");
  const button = h("button.quiet.small", { type: "button", "data-key": "e" }, icon("fold"), label);
  button.addEventListener("click", () => {
    const folds = [...place.querySelectorAll("details.fold")];
    const open = folds.some((one) => !one.open);
    for (const one of folds) one.open = open;
    label.textContent = open ? "Fold all" : "Unfold all";
  });
  return button;
}

/** Saves the very bytes that `fetched` brings. */
function saveButton(text, name, fetched) {
  const label = h("span", text);
  const button = h("button.quiet.small", { type: "button" }, icon("file"), label);
  button.addEventListener("click", async () => {
    try {
      save(await fetched(), name);
    } catch (error) {
      if (error.name !== "AbortError") label.textContent = error.message;
    }
  });
  return button;
}

function copyButton(text, value) {
  const label = h("span", text);
  const button = h("button.quiet.small", { type: "button" }, icon("copy"), label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(value());
      label.textContent = "Copied";
    } catch {
      label.textContent = "Copy it from the address bar";
    }
    setTimeout(() => { label.textContent = text; }, 2000);
  });
  return button;
}
