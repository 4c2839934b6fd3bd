// Words in the thread that is shown: all that holds them is marked, and stepped through.

import { h } from "./dom.js";
import { many } from "./format.js";

const MOST = 1000; // places that are marked
const WAIT = 150; // ms behind the last key

/** A field that finds in `place`. `whole()` is awaited before the first search: it shows what is not there yet. */
export function finder(place, whole, signal) {
  const field = h("input", { type: "search", placeholder: "Find in thread", "aria-label": "Find in thread", "data-key": "f", spellcheck: "false", maxlength: 200 });
  const state = h("span.muted.num", { role: "status" });
  let ranges = [];
  let at = -1;
  let timer;

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, WAIT);
  });
  field.addEventListener("keydown", async (event) => {
    if (event.key === "Escape") field.blur();
    if (event.key !== "Enter") return;
    event.preventDefault();
    go(event.shiftKey ? -1 : 1);
  });
  signal.addEventListener("abort", clear);

  async function search() {
    const words = field.value.trim().toLowerCase();
    clear();
    if (!words) return;
    await whole();
    if (signal.aborted || words !== field.value.trim().toLowerCase()) return;
    ranges = rangesOf(place, words);
    CSS.highlights?.set("found", new Highlight(...ranges));
    at = -1;
    state.textContent = ranges.length ? many(ranges.length, "place") : "nowhere";
    if (ranges.length) go(1);
  }

  function go(by) {
    if (!ranges.length) return;
    at = (at + by + ranges.length) % ranges.length;
    const range = ranges[at];
    const element = range.startContainer.parentElement;
    for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    CSS.highlights?.set("found-here", new Highlight(range));
    element.scrollIntoView({ block: "center" });
    state.textContent = `${at + 1} of ${ranges.length}`;
  }

  function clear() {
    ranges = [];
    state.textContent = "";
    CSS.highlights?.delete("found");
    CSS.highlights?.delete("found-here");
  }

  return h("span.find", field, state);
}

function rangesOf(place, words) {
  const found = [];
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && found.length < MOST; node = walker.nextNode()) {
    if (node.parentElement.closest(".thinking > summary .cut")) continue; // a line of what is in the fold
    const text = node.data.toLowerCase();
    if (text.length !== node.data.length) continue; // places would not be those of the text
    for (let from = text.indexOf(words); from >= 0 && found.length < MOST; from = text.indexOf(words, from + words.length)) {
      const range = new Range();
      range.setStart(node, from);
      range.setEnd(node, from + words.length);
      found.push(range);
    }
  }
  return found;
}
