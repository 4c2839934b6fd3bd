// Asking a model again, changed, with the reader's own key, where the operator has allowed it: the answer that was there
// and the new one, side by side. The key is in the field and in the request, and nowhere else.

import * as api from "./api.js";
import { sideBySide } from "./compare.js";
import { fill, h, icon } from "./dom.js";
import { person } from "./person.js";

/**
 * -> a function: turn -> the fold in which its model is asked again; the same element each time, so that nothing typed
 * is lost. `page`: {address: run -> the link to its branch; stay: goes on showing the branch of a run, though a newer one
 * comes; look: loads the thread again, soon}.
 */
export async function againIn(place, whose, page, signal) {
  const { rerun } = await api.json("/static/features.json", {}, signal).catch(() => ({}));
  if (!rerun) return () => null;
  const folds = new Map();
  return (turn) => {
    const id = turn["meta:turn_id"];
    const first = (Array.isArray(turn.messages) ? turn.messages : []).find((one) => one.message_type === "response");
    if (!first?.["meta:request"]) return null;
    if (!folds.has(id)) folds.set(id, againView(id, first.model_name, { place, whose, page, run: turn["meta:run_id"], signal }));
    return folds.get(id);
  };
}

function againView(turn, name, view) {
  const field = (what, label, more) => h(what, { id: `again-${label.replaceAll(" ", "-")}-${turn}`, "aria-label": label, autocomplete: "off", ...more });
  const model = field("input", "Model", { type: "text", maxlength: "1000", placeholder: name ?? "" });
  const system = field("textarea", "System prompt", { rows: "2", placeholder: "as it was" });
  const tools = field("textarea", "Tools", { rows: "1", placeholder: "as they were; JSON: [{…}]" });
  const values = field("textarea", "Parameters", { rows: "1", placeholder: '{"temperature": 0}' });
  const key = field("input", "Your key", { type: "password", required: true, maxlength: "2000", autocomplete: "new-password" });
  const kept = h("input", { type: "checkbox", checked: true });
  const status = h("p.small", { role: "status" });
  const answers = h("div");
  const refused = person.refused("control");
  const button = h("button", { type: "submit", disabled: refused !== null, title: refused ?? "" }, "Ask again");
  const form = h(
    "form.again", { onsubmit: ask },
    [["Model", model], ["System prompt", system], ["Tools", tools], ["Parameters", values], ["Your key of the provider", key]].map(([label, one]) => h("label", label, one)),
    h("label.check", kept, "Store the answer as another version"),
    h("div.actions", button, status),
  );
  return h("details.fold", h("summary", icon("agent"), h("b", "Ask again"), h("span.muted.cut", "another model, prompt, parameters")), form, answers);

  async function ask(event) {
    event.preventDefault();
    status.classList.remove("problem");
    button.disabled = true;
    try {
      const body = { turn, publish: kept.checked, ...changed("model", model.value.trim()), ...changed("system", system.value), ...changed("tools", parsed("Tools", tools)), ...changed("values", parsed("Parameters", values)) };
      status.textContent = "It answers…";
      view.page.stay(view.run);
      const path = api.url(`${view.place}/rerun`, view.whose);
      const pair = await api.send("POST", path, body, view.signal, { "Turnmill-Provider-Key": key.value });
      status.textContent = "";
      fill(answers, answered(pair, view.page.address));
      if (pair.run_id) view.page.look();
    } catch (error) {
      status.textContent = error.message;
      status.classList.add("problem");
    } finally {
      button.disabled = false;
    }
  }
}

function changed(name, value) {
  return value ? { [name]: value } : {};
}

function parsed(name, field) {
  try {
    return field.value.trim() ? JSON.parse(field.value) : null;
  } catch {
    throw new Error(`${name}: that is no JSON`);
  }
}

function answered(pair, address) {
  return [
    sideBySide("Both answers", ["before", "after"], [pair.before, pair.after]),
    pair.run_id && h("p.small", h("a", { href: address(pair.run_id) }, "To the new version"), h("span.muted", ", once it is stored")),
  ];
}
