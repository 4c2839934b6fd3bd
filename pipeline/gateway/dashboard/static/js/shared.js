// A thread as somebody sees it who has a link and no token: what was said, and no commands.

import { bearing, url } from "./api.js";
import { fill, h } from "./dom.js";
import { many, moment, nameOf } from "./format.js";
import { nested, showTurns, turnView } from "./turn_view.js";
import { versionsOf } from "./versions.js";

const PART = 100; // turns of a page
const TITLE = 120; // characters

export async function sharedThread(main, signal, query, _, secret) {
  const address = (branch) => `#${url(`/shared/${encodeURIComponent(secret)}`, { branch })}`;
  const shown = { turns: [], agents: {}, previous: null };
  const head = h("div.thread-head", h("h1", "Shared thread"));
  const message = h("p.state", { role: "status" }, "Loading…");
  const earlier = h("button.quiet", { type: "button", hidden: true, onclick: load }, "Show earlier turns");
  const turns = h("div.turns");
  fill(main, head, h("div.thread", h("div", message, earlier, turns)));
  main.classList.add("narrow");
  await load();

  async function load() {
    try {
      const page = await bearing(secret, url("/v1/shared", { branch: query.get("branch") ?? "", last: PART, before: shown.previous }), signal);
      const all = [...page.turns, ...shown.turns];
      Object.assign(shown, { ...page, turns: all, agents: { ...shown.agents, ...page.agents } });
      show();
    } catch (error) {
      if (signal.aborted) return;
      message.textContent = error.status === 401 || error.status === 404 ? "This link has ended, or was cut off on its way." : error.message;
      message.classList.add("problem");
    }
  }

  function show() {
    const asked = shown.turns.find((turn) => turn.turn_type === "user")?.parts.find((part) => typeof part.content === "string")?.content;
    const title = shown.title || asked?.slice(0, TITLE) || nameOf({ agents: Object.values(shown.agents).map((one) => one.agent_name) });
    document.title = `${title} · Turnmill`;
    fill(head, h("h1", title), h("div.facts", h("span", many(shown.turns.length, "turn")), h("span.muted", `updated ${moment(shown.updated_at)}`), h("span.muted", "shared by a link")));
    message.textContent = "";
    earlier.hidden = shown.previous === null;
    const none = () => null;
    const view = { document: shown, usage: {}, steps: null, signal, address, asked: none, again: none, compared: none, adding: none, judged: none, versions: versionsOf(shown.turns, address) };
    showTurns(turns, () => nested(shown.turns).map((node) => turnView(node, view)));
  }
}
