// Which tools are called, and which of them fail: counted in the newest turns once somebody looks.

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { duration, exact, many } from "./format.js";

const HEADS = ["Tool", "Calls", "Failed", "Unanswered", "Took, p95"];

/** `only`: filters of the page; `seconds`: how far back. */
export function toolsView(only, seconds, signal) {
  const said = h("p.state", { role: "status" }, "Loading…");
  const place = h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Calls of tools" }, said);
  const view = h("details.card.tools", h("summary", h("h2", "Tools"), h("span.note", "which are called, and which fail")), place);
  view.addEventListener("toggle", async () => {
    if (!view.open) return;
    try {
      const since = Date.now() - seconds * 1000;
      const { tools, turns } = await api.json("/v1/tools", { ...only, since }, signal);
      said.textContent = tools.length ? "" : "No tool was called in this time";
      fill(place, said, tools.length > 0 && table(tools, turns, { ...only, from: new Date(since).toISOString(), to: new Date().toISOString() }));
    } catch (error) {
      if (!signal.aborted) fill(place, h("p.state.problem", error.message));
    }
  });
  return view;
}

function table(tools, turns, like) {
  return h(
    "table",
    h("caption", `In the newest ${many(turns, "turn")} of this time, those with most failures first`),
    h("thead", h("tr", HEADS.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", tools.map((one) => h(
      "tr",
      h("th", { scope: "row" }, h("a", { href: api.threadsAddress({ ...like, tool: one.tool }) }, one.tool)),
      h("td", exact(one.calls)),
      h("td", one.failed > 0 ? h("span.chip.bad", `${exact(one.failed)}, ${Math.round((one.failed / one.calls) * 100)} %`) : "0"),
      h("td", exact(one.unanswered)),
      h("td", duration(one.took_p95_ms)),
    ))),
  );
}
