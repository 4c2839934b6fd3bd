// Keys for those who leave the mouse alone, and the list of them.

import { fill, h, icon } from "./dom.js";

const PLACES = { o: "#/", t: "#/threads", s: "#/search", p: "#/pipeline", d: "#/dead-letters" };
const LIST = [
  ["?", "This list"],
  ["g o", "Overview"],
  ["g t", "Threads"],
  ["g s", "What was said"],
  ["g p", "Pipeline"],
  ["g d", "Dead letters"],
  ["/", "Search threads"],
  ["j k", "Next and previous row or turn"],
  ["Enter", "Open it"],
  ["e", "Unfold or fold all of a thread"],
  ["f", "Find in the thread"],
];
const STEPS = ".rows .row, .letter > summary, .group > summary, .turn";
const WITHIN = 1500; // ms between the two keys of one

/** Listens, and shows the list when `button` is pressed. */
export function shortcuts(button) {
  const close = h("button.quiet", { type: "button", autofocus: true }, "Close");
  const dialog = h(
    "dialog.card.keys", { "aria-labelledby": "keys-title" },
    h("header", h("h2", { id: "keys-title" }, "Keyboard shortcuts"), close),
    h("dl", LIST.map(([keys, text]) => h("div", h("dt", keys.split(" ").map((key) => h("kbd", key))), h("dd", text)))),
  );
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  fill(button, icon("keys"));
  button.addEventListener("click", () => dialog.showModal());

  let went = -Infinity; // when g was pressed
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target.closest?.("input, select, textarea")) return;
    const second = performance.now() - went < WITHIN;
    went = event.key === "g" ? performance.now() : -Infinity;
    if (second && PLACES[event.key]) location.hash = PLACES[event.key];
    else if (event.key === "?") dialog.showModal();
    else if (event.key === "/") search();
    else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    else if (event.key === "e") document.querySelector("[data-key=e]")?.click();
    else if (event.key === "f") document.querySelector("[data-key=f]")?.select();
    else return;
    event.preventDefault();
  });
}

function search() {
  const field = () => document.querySelector("main form input[type=search]");
  if (field()) {
    field().select();
    return;
  }
  addEventListener("hashchange", () => setTimeout(() => field()?.select()), { once: true });
  location.hash = PLACES.t;
}

function step(by) {
  const all = [...document.querySelectorAll(STEPS)].filter((one) => one.checkVisibility());
  const here = all.findLastIndex((one) => one.contains(document.activeElement));
  const next = all[here < 0 ? 0 : Math.min(all.length - 1, Math.max(0, here + by))];
  if (!next) return;
  if (!next.matches("a, summary")) next.setAttribute("tabindex", "-1");
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
