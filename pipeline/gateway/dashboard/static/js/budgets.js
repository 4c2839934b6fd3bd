// Budgets with the used part of each, and webhooks with the events that wait for them.

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { count, dollars, inFull, moment } from "./format.js";

const NEAR = 0.8; // the used share from which a budget is marked

export function budgets(main, signal) {
  fill(
    main,
    h("div.controls", h("h1", "Budgets and webhooks")),
    section("Budgets", "Limits of tokens or cost in an hour, a day or a month (UTC). TURNMILL_BUDGETS sets them.", "/v1/budgets", "budgets", budget, signal),
    section("Webhooks", "Addresses that receive events. TURNMILL_WEBHOOKS and the API set them up.", "/v1/webhooks", "webhooks", webhook, signal),
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
    message.classList.add("problem");
  });
  return h("section.card", { "aria-label": title }, h("header", h("h2", title), h("p.muted", note)), list, message);
}

function budget(one) {
  const shown = one.unit === "usd" ? dollars : count;
  const of = [one.tenant, one.agent, one.model, ...Object.entries(one.labels).map(([kind, label]) => `${kind} ${label}`)].filter(Boolean);
  const level = one.ratio >= 1 ? ".bad" : one.ratio >= NEAR ? ".warn" : "";
  return h(
    "div.token",
    h("strong.cut", one.name),
    h("span.muted", of.join(", ") || "all runs"),
    h(`span.chip${level}`, `${count(100 * one.ratio)} % used`),
    h("span", `${shown(one.used)} of ${shown(one.limit)}${one.unit === "usd" ? "" : " tokens"} in this ${one.per}`),
    h("time.num.muted.acts", { datetime: one.end, title: inFull(Date.parse(one.end)) }, `until ${moment(Date.parse(one.end))}`),
  );
}

function webhook(one) {
  return h(
    "div.token",
    h("strong.cut", one.url),
    one.events.map((event) => h("span.chip", event)),
    h("span.muted", one.tenant === null ? "all tenants" : one.tenant),
    h("span.muted.acts", one.waiting ? `${count(one.waiting)} events wait` : "all events are sent"),
  );
}
