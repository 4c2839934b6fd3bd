// Things to choose with.

import { fill, h } from "./dom.js";

const WAIT = 250; // ms behind the last key

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

/** The fields that narrow a list: `wanted` is {name: text}; each change stands in the address, and `changed()` follows it. */
export function narrowing(path, wanted, changed) {
  function change(name, value) {
    wanted[name] = value;
    const kept = new URLSearchParams(Object.entries(wanted).filter(([, text]) => text));
    history.replaceState(null, "", `#${path}${kept.size ? `?${kept}` : ""}`); // without drawing anew: the focus stays
    changed();
  }

  /** A field of text of at most `most` characters, which counts when no key was pressed for `WAIT`. */
  function typed(label, name, hint, most) {
    let timer;
    const element = h("input", { type: "search", value: wanted[name], placeholder: hint, spellcheck: "false", maxlength: most });
    element.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => change(name, element.value.trim()), WAIT);
    });
    return labelled(label, element);
  }

  /** A choice out of [value, text]. */
  function choice(label, name, options) {
    return labelled(label, select(options, wanted[name], (value) => change(name, value)));
  }

  /** A choice out of names that come later; hidden where there are none to choose from. */
  function named(label, name, all, coming) {
    const field = h("span");
    const element = labelled(label, field);
    const draw = (names) => {
      const options = [...new Set(wanted[name] ? [wanted[name], ...names] : names)].sort();
      element.hidden = options.length < 2 && !wanted[name];
      fill(field, select([["", all], ...options.map((one) => [one, one])], wanted[name], (value) => change(name, value)));
    };
    draw([]);
    coming.then((names) => names && !field.contains(document.activeElement) && draw(names));
    return element;
  }

  return { typed, choice, named, change };
}
