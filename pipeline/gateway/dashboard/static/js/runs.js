// The open runs, as they stream.

import { threadAddress } from "./api.js";
import { keyOf } from "./attention.js";
import { stopButton } from "./control.js";
import { h } from "./dom.js";
import { ago, exact, many } from "./format.js";

const LETTER = 7.6; // px of a letter, on average

export function runList(signal) {
  const number = h("span.figure");
  const list = h("ul.rows.runs");
  const none = h("p.state", "No run is open just now. What agents say appears here as they say it.");
  const element = h("section.card", { "aria-labelledby": "open-runs" }, h("header", h("h2", { id: "open-runs" }, "Open runs"), number), list, none);
  const rows = new Map();
  let silent = new Set();

  function show({ runs, open, now }) {
    number.textContent = open > runs.length ? `the newest ${runs.length} of ${exact(open)}` : "";
    none.hidden = runs.length > 0;
    const wanted = new Map(runs.map((run) => [keyOf(run), run]));
    for (const [key, row] of rows) {
      if (!wanted.has(key)) {
        row.element.remove();
        rows.delete(key);
      }
    }
    let before = null;
    for (const [key, run] of wanted) {
      if (!rows.has(key)) rows.set(key, makeRow(run, signal));
      const row = rows.get(key);
      row.update(run, now, silent.has(key));
      const place = before ? before.nextSibling : list.firstChild;
      if (place !== row.element) list.insertBefore(row.element, place); // rows that stay keep the focus
      before = row.element;
    }
  }

  return { element, show, mark: (keys) => { silent = keys; } };
}

/** The end of a text, from the beginning of a word on. */
function newestWords(text, room) {
  const all = text.trim().replace(/\s+/g, " ");
  if (all.length <= room) return all || "…";
  const end = all.slice(-room);
  return `… ${end.slice(end.indexOf(" ") + 1)}`;
}

function makeRow(run, signal) {
  const model = h("span.muted");
  const age = h("span.num.muted");
  const events = h("span.num.muted");
  const text = h("span.said");
  const name = h("b", run.agent_name ?? run.agent_id);
  const pulse = h("i.pulse", { "aria-hidden": "true" });
  const link = h("a.row", { href: threadAddress(run.thread_id, run.tenant, { live: 1 }) }, pulse, name, model, text, events, age);
  return {
    element: h("li", link, !run.imported && stopButton(run.thread_id, run.run_id, run.tenant, signal)),
    update(newest, now, isSilent) {
      pulse.classList.toggle("silent", isSilent);
      age.title = isSilent ? "Silent for longer than usual" : "";
      name.textContent = newest.agent_name ?? newest.agent_id;
      model.textContent = newest.model ?? "";
      age.textContent = ago(now * 1000 - newest.started_at);
      events.textContent = many(newest.events, "event");
      text.textContent = newestWords(newest.text, Math.max(24, Math.floor(text.clientWidth / LETTER)));
    },
  };
}

