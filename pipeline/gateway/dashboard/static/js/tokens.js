// Tokens of programs: made, rotated and revoked. A secret is shown once.

import * as api from "./api.js";
import { copyButton } from "./buttons.js";
import { labelled } from "./controls.js";
import { fill, h } from "./dom.js";
import { inFull, moment } from "./format.js";
import { person } from "./person.js";

const SCOPES = {
  read: "read threads, live streams and usage",
  publish: "send runs",
  feedback: "say what you think of threads",
  control: "stop, steer and answer runs",
  admin: "delete and hold threads, read dead letters and the audit log, make tokens",
};
const DAYS = [["", "Never"], ["7", "In 7 days"], ["30", "In 30 days"], ["90", "In 90 days"], ["365", "In a year"]];
const DAY_MS = 86_400_000;

export function tokens(main, signal) {
  const list = h("div.letters");
  const message = h("p.state", { role: "status" }, "Loading…");
  const fresh = h("div", { "aria-live": "polite" });
  fill(
    main,
    h("div.controls", h("h1", "Tokens")),
    h("section.card", { "aria-label": "New token" }, h("header", h("h2", "New token"), h("span.note", "it can't grant more than your own token does")), form(made), fresh),
    h("section.card", { "aria-label": "Tokens" }, h("header", h("p.muted", "Tokens that were made here, by the API, or by ", h("code", "turnmill tokens"), ". Those of the gateway's settings are not listed.")), list, message),
  );
  load();

  async function load() {
    try {
      const found = (await api.json("/v1/tokens", {}, signal)).tokens;
      fill(list, found.toReversed().map((one) => row(one, made, load, say, signal)));
      message.textContent = found.length ? "" : "There is none yet";
      message.classList.remove("problem");
    } catch (error) {
      say(error);
    }
  }

  function say(error) {
    if (signal.aborted) return;
    message.textContent = error.message;
    message.classList.add("problem");
  }

  function made(token) {
    fill(fresh, h("p.notice", h("strong", `${token.name}: `), h("code", token.token), " ", copyButton("Copy", () => token.token)), h("p.muted.small", "It is shown this once. Gateways let it in within a second."));
    load();
  }

  function form(done) {
    const name = h("input", { type: "text", name: "name", required: true, maxlength: 100, autocomplete: "off" });
    const tenant = h("input", { type: "text", name: "tenant", maxlength: 200, autocomplete: "off", placeholder: "yours, or all" });
    const expires = h("select", { name: "expires" }, DAYS.map(([value, text]) => h("option", { value }, text)));
    const boxes = Object.entries(SCOPES).map(([scope, does]) => h("label.check", { title: does }, h("input", { type: "checkbox", name: "scope", value: scope, checked: scope === "read" }), scope));
    const problem = h("p.state", { role: "alert" });
    const element = h(
      "form.filters.new-token",
      labelled("Name", name),
      h("div.field", { role: "group", "aria-label": "Scopes" }, h("span", "Scopes"), h("div.checks", boxes)),
      labelled("Tenant", tenant),
      labelled("Expires", expires),
      h("button.primary", { type: "submit", disabled: person.refused("admin") !== null, title: person.refused("admin") ?? "" }, "Make the token"),
      problem,
    );
    element.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.textContent = "";
      const scopes = [...element.querySelectorAll("[name=scope]:checked")].map((one) => one.value);
      const until = expires.value && new Date(Date.now() + Number(expires.value) * DAY_MS).toISOString();
      try {
        done(await api.send("POST", "/v1/tokens", { name: name.value.trim(), scopes, tenant: tenant.value.trim() || null, expires: until || null }, signal));
        element.reset();
      } catch (error) {
        if (!signal.aborted) problem.textContent = error.message;
      }
    });
    return element;
  }
}

function row(token, made, load, say, signal) {
  const over = token.expires_at !== null && token.expires_at <= Date.now();
  const act = (text, doing, sure) => {
    const button = h("button.quiet.small", { type: "button" }, text);
    button.addEventListener("click", async () => {
      if (sure && button.textContent !== sure) {
        button.textContent = sure; // a second click does it
        return;
      }
      button.disabled = true;
      try {
        await doing();
      } catch (error) {
        say(error);
      }
      button.disabled = false;
    });
    return button;
  };
  const path = `/v1/tokens/${encodeURIComponent(token.id)}`;
  return h(
    "div.token",
    { "data-token": token.id },
    h("strong.cut", token.name),
    token.role && h("span.chip.good", `signed in: ${token.role}`),
    token.thread && h("a.chip", { href: api.threadAddress(encodeURIComponent(token.thread.split("/")[0]), token.tenant ?? "") }, "link to a thread"),
    token.scopes.map((scope) => h("span.chip", scope)),
    h("span.muted", token.tenant ?? (token.thread ? "no tenant" : "all tenants")),
    over && h("span.chip.bad", "expired"),
    h("span.muted.small", { title: inFull(token.made_at) },
      token.used_at === null ? "never used" : `used ${moment(token.used_at)}`,
      token.expires_at !== null && !over && `, until ${moment(token.expires_at)}`,
      token.rate !== null && `, ${token.rate} requests a second`,
      token.addresses.length > 0 && `, from ${token.addresses.join(", ")}`),
    h("span.acts",
      !token.role && !token.thread && act("Rotate", async () => made(await api.send("POST", `${path}/rotate`, null, signal))),
      act("Revoke", async () => {
        await api.send("DELETE", path, null, signal);
        load();
      }, "Revoke for good")),
  );
}
