// What people and programs say of a turn, and what the reader says: a thumb, and a comment, which can be taken back.

import * as api from "./api.js";
import { fill, h, icon } from "./dom.js";
import { moment } from "./format.js";

const NAME = "helpful"; // what a thumb says
const MINE = "turnmill.feedback"; // ids of the reader's own, in this browser: turn -> id

/** Feedback of a document -> a function: turn -> elements; null where the gateway takes none. */
export function judgedIn(document, place, tenant, signal) {
  const all = document["meta:feedback"];
  return (turn) => (all ? judgedView(turn, all.filter((one) => isOf(one, turn)), { place, tenant, signal }) : null);
}

function isOf(one, turn) {
  return one.turn_id === turn["meta:turn_id"] || (!one.turn_id && one.run_id && one.run_id === turn["meta:run_id"]);
}

function judgedView(turn, said, view) {
  const id = mine()[turn["meta:turn_id"]];
  let own = said.find((one) => one.id === id) ?? null;
  const others = said.filter((one) => one.id !== id);
  const root = h("section.judged", { "aria-label": "Feedback" });
  const problem = h("p.problem.small", { role: "status" });
  const words = h("textarea", { "aria-label": "Comment", rows: "2", maxlength: "10000", placeholder: "Why? (optional)" });
  const draw = () => {
    const up = own?.value === true;
    const down = own?.value === false;
    words.value = own?.comment ?? "";
    fill(
      root,
      h("div.actions", thumb("up", "Helpful", up, () => say(up ? null : true)), thumb("down", "Not helpful", down, () => say(down ? null : false)), others.map(chip)),
      own && h("form", { onsubmit: comment }, words, h("button", { type: "submit" }, "Save comment")),
      problem,
    );
  };
  const comment = (event) => {
    event.preventDefault();
    say(own.value);
  };
  const say = async (value) => {
    const name = own?.id ?? crypto.randomUUID?.() ?? String(Math.random()).slice(2);
    const body = { id: name, name: NAME, value, turn_id: turn["meta:turn_id"], ...(value !== null && words.value && { comment: words.value }) };
    try {
      await api.send("POST", api.url(`${view.place}/feedback`, { tenant: view.tenant }), body, view.signal);
      own = value === null ? null : body;
      remember(turn["meta:turn_id"], own?.id);
      problem.textContent = "";
    } catch (error) {
      problem.textContent = error.message;
    }
    draw();
    root.querySelector(`[data-thumb="${value === false ? "down" : "up"}"]`).focus({ preventScroll: true });
  };
  draw();
  return root;
}

function thumb(name, label, pressed, onclick) {
  return h("button.icon", { type: "button", "aria-label": label, title: label, "aria-pressed": String(pressed), "data-thumb": name, onclick }, icon(name));
}

function chip(one) {
  const value = one.value === true ? "yes" : one.value === false ? "no" : String(one.value);
  const who = [one.by, Number.isFinite(one.at) && moment(one.at)].filter(Boolean).join(", ");
  return h("span.chip", { title: who }, `${one.name}: ${value}`, one.comment && h("span.muted", ` – ${one.comment}`));
}

function mine() {
  try {
    return JSON.parse(localStorage.getItem(MINE)) ?? {};
  } catch {
    return {};
  }
}

function remember(turn, id) {
  const { [turn]: _, ...rest } = mine();
  const newest = Object.entries(rest).slice(-999);
  try {
    localStorage.setItem(MINE, JSON.stringify(Object.fromEntries(id ? [...newest, [turn, id]] : newest)));
  } catch {
    // a browser that keeps nothing: it can't be taken back later
  }
}
