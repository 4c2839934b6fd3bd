// Data sets: turns that people have chosen under a name. Their list, the turns of each, and how a turn gets in.

import * as api from "./api.js";
import { attempt } from "./attempt.js";
import { labelled } from "./controls.js";
import { fill, h } from "./dom.js";
import { inFull, many, moment } from "./format.js";
import { person } from "./person.js";

const PAGE = 100;
const LIST = "datasets"; // the id of the list of names that fields offer
let last = ""; // the name that was used last

const pathOf = (name) => `/v1/datasets/${encodeURIComponent(name)}`;
const addressOf = (name, tenant) => `#${api.url(`/datasets/${encodeURIComponent(name)}`, { tenant })}`;

/** -> a function: turn, null for all of the thread's -> what opens, and in which it is added to a data set, the same each time. */
export function addingTo(place, whose, signal) {
  const folds = new Map();
  const names = h("datalist", { id: LIST });
  return (turn, what = "this turn") => {
    const id = turn?.["meta:turn_id"] ?? null;
    if (turn && !id) return null;
    if (!folds.has(id)) folds.set(id, adding(id, what));
    return folds.get(id);
  };

  function adding(turn, what) {
    const refused = person.refused("feedback");
    const field = h("input", { id: `set-${turn ?? "all"}`, type: "text", list: LIST, required: true, maxlength: 100, pattern: "[\\p{L}\\p{N}_][\\p{L}\\p{N}_ .\\-]*", title: "Letters, digits, _, -, . and spaces", autocomplete: "off" });
    const said = h("p.state.small", { role: "status" });
    const form = h("form.filters", { onsubmit: add }, labelled("Name", field), h("button.primary", { type: "submit", disabled: refused !== null, title: refused ?? "" }, "Add"), turn === null && names);
    return h("details.adding", { ontoggle: offer }, h("summary", `Add ${what} to a data set`), form, said);

    async function offer(event) {
      if (!event.target.open) return;
      field.value ||= last;
      const found = await api.json("/v1/datasets", whose, signal).catch(() => ({ datasets: [] }));
      fill(names, [...new Set(found.datasets.map((one) => one.name))].map((name) => h("option", { value: name })));
    }

    async function add(event) {
      event.preventDefault();
      last = field.value.trim();
      await attempt(said, signal, async () => {
        const done = await api.send("PUT", api.url(`${place}/datasets/${encodeURIComponent(last)}`, { ...whose, turn }), null, signal);
        fill(said, done.turns ? `Added ${many(done.turns, "turn")} to ` : "Nothing new for ", h("a", { href: addressOf(last, done.tenant ?? "") }, last));
      });
    }
  }
}

/** The list of all data sets. */
export function datasets(main, signal) {
  const list = h("div.letters");
  const message = h("p.state", { role: "status" }, "Loading…");
  fill(main, h("div.controls", h("h1", "Data sets")), h("section.card", { "aria-label": "Data sets" }, h("header", h("p.muted", "Turns that were chosen in their threads, to be exported: ", h("code", "turnmill export --dataset NAME"))), list, message));
  const load = () => attempt(message, signal, async () => {
    const found = (await api.json("/v1/datasets", {}, signal)).datasets;
    fill(list, found.map(row));
    return found.length ? "" : "None yet: a thread has a form for it below each turn";
  });
  load();

  function row(one) {
    const drop = () => attempt(message, signal, async () => {
      await api.send("DELETE", api.url(pathOf(one.name), { tenant: one.tenant ?? "" }), null, signal);
      load();
    });
    return h(
      "div.token",
      h("a.cut", { href: addressOf(one.name, one.tenant ?? "") }, h("strong", one.name)),
      one.tenant && h("span.chip", one.tenant),
      h("span", many(one.turns, "turn")),
      h("time.muted.small", { title: inFull(one.newest) }, `newest ${moment(one.newest)}`),
      h("span.acts", act("Delete", `Delete the data set ${one.name}`, drop, "Delete for good")),
    );
  }
}

/** The turns of a data set, in pages. */
export function dataset(main, signal, query, _, name) {
  const list = h("div.letters");
  const message = h("p.state", { role: "status" }, "Loading…");
  const more = h("button.quiet", { type: "button", hidden: true }, "Show more");
  const tenant = query.get("tenant");
  let after = 0;
  fill(main, h("p.crumbs", h("a", { href: "#/datasets" }, "Data sets"), " / ", h("span.cut", name)), h("div.controls", h("h1", name), tenant && h("span.chip", tenant)), h("section.card", { "aria-label": "Turns" }, list, more, message));
  const load = () => attempt(message, signal, async () => {
    const page = await api.json(pathOf(name), { tenant, after, limit: PAGE }, signal);
    list.append(...page.turns.map(row));
    after = page.next;
    more.hidden = after === null;
    return "";
  });
  more.addEventListener("click", load);
  load();

  function row(turn) {
    const out = () => attempt(message, signal, async () => {
      await api.send("DELETE", api.url(`/v1/threads/${encodeURIComponent(turn.thread_id)}/datasets/${encodeURIComponent(name)}`, { tenant, turn: turn.turn_id }), null, signal);
      element.remove();
      return list.children.length || after !== null ? "" : "No turns are left, so the data set is gone";
    });
    const element = h(
      "div.token",
      h("span.num.muted", turn.number),
      h("a.cut", { href: api.threadAddress(encodeURIComponent(turn.thread_id), tenant, { turn: turn.turn_id }) }, turn.title ?? turn.thread_id),
      h("time.muted.small.acts", { title: inFull(turn.added_at) }, `added ${moment(turn.added_at)}`),
      act("Take out", `Take out turn ${turn.number}`, out),
    );
    return element;
  }
}

/** A button; with `sure` a second click does it. */
function act(text, label, doing, sure = null) {
  const refused = person.refused("feedback");
  const button = h("button.quiet.small", { type: "button", "aria-label": label, disabled: refused !== null, title: refused ?? "" }, text);
  button.addEventListener("click", () => {
    if (!sure || button.textContent === sure) doing();
    else button.textContent = sure;
  });
  return button;
}
