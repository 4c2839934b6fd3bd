// Things to choose with.

import { h } from "./dom.js";

/** options: [value, text]; `changed(value)` after a choice. */
export function select(options, chosen, changed, attributes = {}) {
  const element = h("select", attributes, options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  element.addEventListener("change", () => changed(element.value));
  return element;
}

/** A choice out of few, each with an address of its own: options are [id, text, href]. */
export function segmented(name, options, chosen) {
  return h("div.segmented", { role: "group", "aria-label": name }, options.map(([id, text, href]) => h(
    "a", { href, "aria-current": id === chosen && "true", "data-focus": `${name} ${id}` }, text,
  )));
}

export function labelled(text, field) {
  return h("label.field", h("span", text), field);
}
