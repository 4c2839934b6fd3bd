// Values as indented JSON; what is long is cut, and shown in full on request.

import { h } from "./dom.js";
import { bytes } from "./format.js";

const MOST = 2_000; // characters

/** Any value as <pre>: a text as it is, anything else as JSON. */
export function jsonView(value) {
  return longText(typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "", "pre.code");
}

/** A text in an element, cut where it is long. */
export function longText(text, tag = "div.text") {
  const element = h(tag, text.slice(0, MOST));
  if (tag.startsWith("pre")) element.setAttribute("tabindex", "0"); // it scrolls
  if (text.length <= MOST) return element;
  element.append("…");
  const button = h("button.quiet.small", { type: "button", "aria-expanded": "false" }, `Show all (${bytes(text.length)})`);
  let all = false;
  button.addEventListener("click", () => {
    all = !all;
    element.textContent = all ? text : `${text.slice(0, MOST)}…`;
    button.textContent = all ? "Show less" : `Show all (${bytes(text.length)})`;
    button.setAttribute("aria-expanded", String(all));
  });
  return h("div.long", element, button);
}
