// Saved views: what this address shows, with its filters, for oneself or for all of one's tenant.

import * as api from "./api.js";
import { attempt } from "./attempt.js";
import { labelled } from "./controls.js";
import { fill, h } from "./dom.js";
import { person } from "./person.js";

/** A menu that saves the current address, and lists what was saved. */
export function savedViews(signal) {
  const list = h("ul.rows");
  const message = h("p.state", { role: "status" });
  const refused = person.refused("feedback");
  const name = h("input", { type: "text", required: true, maxlength: 100, autocomplete: "off" });
  const shared = h("input", { type: "checkbox" });
  const form = h("form.filters", labelled("Save this view as", name), h("label.check", shared, "for my team"), h("button.primary", { type: "submit", disabled: refused !== null, title: refused ?? "" }, "Save"));
  const menu = h("details.fold.views", h("summary", "Views"), list, form, message);
  menu.addEventListener("toggle", () => menu.open && attempt(message, signal, load));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(message, signal, async () => {
      await api.send("POST", "/v1/views", { name: name.value.trim(), address: location.hash || "#/", shared: shared.checked }, signal);
      form.reset();
      return load();
    });
  });
  return menu;

  async function load() {
    const { views } = await api.json("/v1/views", {}, signal);
    fill(list, views.map(row));
    return views.length ? "" : "None is saved yet";
  }

  function row(view) {
    const drop = h("button.quiet.small", { type: "button", "aria-label": `Delete the view ${view.name}` }, "Delete");
    drop.addEventListener("click", () => attempt(message, signal, async () => {
      await api.send("DELETE", `/v1/views/${encodeURIComponent(view.id)}`, null, signal);
      return load();
    }));
    return h("li.token", h("a", { href: view.address }, view.name), view.shared && h("span.muted.small", `shared by ${view.owner}`), h("span.acts", view.own && !refused && drop));
  }
}
