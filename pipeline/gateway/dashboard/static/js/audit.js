// Who changed something or read it out, the newest first.

import * as api from "./api.js";
import { attempt } from "./attempt.js";
import { narrowing } from "./controls.js";
import { fill, h } from "./dom.js";
import { inFull, moment } from "./format.js";

const KINDS = [["", "Anything"], ["thread", "Threads"], ["token", "Tokens"], ["sign-in", "Signing in"], ["sign-out", "Signing out"], ["webhook", "Webhooks"], ["run", "Runs"], ["dead-letter", "Dead letters"], ["usage", "Usage"], ["tenant", "Tenants"], ["refused", "Refusals"]];
const OUTCOMES = { failed: "warn", refused: "bad" };

export function audit(main, signal, query) {
  const wanted = { what: query.get("what") ?? "", who: query.get("who") ?? "" };
  const list = h("div.letters");
  const message = h("p.state", { role: "status" }, "Loading…");
  const more = h("button.quiet", { type: "button", hidden: true }, "Older");
  const { typed, choice } = narrowing("/audit", wanted, () => load(null));
  let next = null;
  let newest = 0; // the request whose answer counts
  fill(
    main,
    h("div.controls", h("h1", "Audit"), h("div.filters", choice("Action", "what", KINDS), typed("Who", "who", "a name", 200))),
    h("section.card", { "aria-label": "Actions" }, h("header", h("p.muted", "What people and tokens changed or read out. An action is here within seconds.")), list, message, more),
  );
  more.addEventListener("click", () => load(next));
  load(null);

  async function load(cursor) {
    const mine = (newest += 1);
    more.disabled = true;
    await attempt(message, signal, async () => {
      const page = await api.json("/v1/audit", { what: wanted.what || null, who: wanted.who || null, cursor }, signal);
      if (mine !== newest) return undefined;
      if (cursor === null) fill(list);
      list.append(...page.records.map(row));
      next = page.next;
      more.hidden = next === null;
      return list.children.length ? "" : "No entries match these filters";
    });
    more.disabled = false;
  }
}

function row(entry) {
  return h(
    "div.token",
    h("strong", entry.action),
    entry.outcome !== "done" && entry.outcome !== entry.action && h(`span.chip.${OUTCOMES[entry.outcome] ?? "bad"}`, entry.outcome),
    entry.subject && h("code.cut", entry.subject),
    entry.tenant && h("span.muted", entry.tenant),
    h("span", `by ${entry.who || "somebody unknown"}`),
    h("span.muted.small", [entry.address && `from ${entry.address}`, entry.token].filter(Boolean).join(", ")),
    h("time.num.muted.acts", { datetime: new Date(entry.at).toISOString(), title: inFull(entry.at) }, moment(entry.at)),
  );
}
