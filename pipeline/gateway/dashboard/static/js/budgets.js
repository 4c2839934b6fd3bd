// Budgets with the used part of each, and webhooks with the events that wait for them.

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { count, dollars, inFull, moment } from "./format.js";

const NEAR = 0.8; // the used share from which a budget is marked

export function budgets(main, signal) {
  fill(
    main,
    h("div.controls", h("h1", "Budgets and webhooks")),
    section("Budgets", "Limits of tokens or cost in an hour, a day or a month (UTC). TURNMILL_BUDGETS sets them.", "/v1/budgets", "budgets", budgetRow, signal),
    section("Webhooks", "Addresses that receive events. TURNMILL_WEBHOOKS and the API set them up.", "/v1/webhooks", "webhooks", webhookRow, signal),
  );
}

function section(title, note, path, member, row, signal) {
  const list = h("div.letters");
  const message = h("p.state", { role: "status" }, "Loading…");
  api.json(path, {}, signal).then((found) => {
    fill(list, found[member].map(row));
    message.textContent = found[member].length ? "" : `No ${member}`;
  }).catch((error) => {
    if (signal.aborted) return;
    message.textContent = error.message;
    message.classList.toggle("problem", error.status !== 409); // which says that they are off
  });
  return h("section.card", { "aria-label": title }, h("header", h("h2", title), h("p.muted", note)), list, message);
}

function budgetRow(budget) {
  const shown = budget.unit === "usd" ? dollars : count;
  const of = [budget.tenant, budget.agent, budget.model, ...Object.entries(budget.labels).map(([kind, label]) => `${kind} ${label}`)].filter(Boolean);
  const level = budget.ratio >= 1 ? ".bad" : budget.ratio >= NEAR ? ".warn" : "";
  return h(
    "div.token",
    h("strong.cut", budget.name),
    h("span.muted", of.join(", ") || "all runs"),
    h(`span.chip${level}`, `${count(100 * budget.ratio)} % used`),
    h("span", `${shown(budget.used)} of ${shown(budget.limit)}${budget.unit === "usd" ? "" : " tokens"} in this ${budget.per}`),
    h("time.num.muted.acts", { datetime: budget.end, title: inFull(Date.parse(budget.end)) }, `until ${moment(Date.parse(budget.end))}`),
  );
}

function webhookRow(webhook) {
  return h(
    "div.token",
    h("strong.cut", webhook.url),
    webhook.events.map((event) => h("span.chip", event)),
    h("span.muted", webhook.tenant === null ? "all tenants" : webhook.tenant),
    h("span.muted.acts", webhook.waiting ? `${count(webhook.waiting)} events wait` : "all events are sent"),
  );
}
