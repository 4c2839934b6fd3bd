// What people and programs say of a turn, or of one of its messages, and what the reader says: a thumb, and a comment,
// which can be taken back.

import * as api from "./api.js";
import { fill, h, icon } from "./dom.js";
import { moment } from "./format.js";

const NAME = "helpful"; // what a thumb says
const MINE = "turnmill.feedback"; // ids of the reader's own, in this browser: turn, or turn#message -> id
const sent = new Map(); // the same -> what this page has sent, which may not be stored yet
const typed = new Map(); // the same -> a comment that is not sent yet

/** Feedback of a document -> a function: turn, message -> elements; null where the gateway takes none, and for a message that is its turn's only one. */
export function judgedIn(document, place, tenant, signal) {
  const all = document["meta:feedback"];
  if (!all) return () => null;
  return (turn, message = null) => {
    const apart = responsesOf(turn);
    if (message !== null && !apart.has(message)) return null;
    const said = all.filter((one) => isOf(one, turn) && (apart.has(one.message) ? one.message : null) === message);
    return judgedView(turn, message, said, { place, tenant, signal });
  };
}

/** The places of a turn's responses, where it has several: what is said of one stands below it. */
function responsesOf(turn) {
  const found = [...(turn.messages ?? []).entries()].filter(([, one]) => one.message_type === "response").map(([n]) => n);
  return new Set(found.length > 1 ? found : []);
}

function isOf(one, turn) {
  return one.turn_id === turn["meta:turn_id"] || (!one.turn_id && one.run_id && one.run_id === turn["meta:run_id"]);
}

function judgedView(turn, message, said, view) {
  const about = { turn_id: turn["meta:turn_id"], ...(message !== null && { message }) };
  const key = message === null ? about.turn_id : `${about.turn_id}#${message}`;
  const id = sent.get(key)?.id ?? mine()[key];
  const stored = said.find((one) => one.id === id) ?? null;
  let own = sent.has(key) ? (sent.get(key).value === null ? null : sent.get(key)) : stored;
  const others = said.filter((one) => one.id !== id);
  const root = h(message === null ? "div.judged" : "div.judged.of-message", { role: "group", "aria-label": message === null ? "Feedback" : `Feedback on message ${message}` });
  const problem = h("p.problem.small", { role: "status" });
  const words = h("textarea", { id: `comment-${key}`, "aria-label": "Comment", rows: "2", maxlength: "10000", placeholder: "Why? (optional)", oninput: () => typed.set(key, words.value) });
  const draw = () => {
    const up = own?.value === true;
    const down = own?.value === false;
    words.value = typed.get(key) ?? own?.comment ?? "";
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
    const body = { id: name, name: NAME, value, ...about, ...(value !== null && words.value && { comment: words.value }) };
    remember(key, name); // before it is sent: whoever reloads the page at once may still take it back
    try {
      await api.send("POST", api.url(`${view.place}/feedback`, { tenant: view.tenant }), body, view.signal);
      own = value === null ? null : body;
      sent.set(key, body);
      if (words.value === (body.comment ?? "") || value === null) typed.delete(key);
      if (value === null) remember(key, null);
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

function remember(key, id) {
  const { [key]: _, ...rest } = mine();
  const newest = Object.entries(rest).slice(-999);
  try {
    localStorage.setItem(MINE, JSON.stringify(Object.fromEntries(id ? [...newest, [key, id]] : newest)));
  } catch {
    // a browser that keeps nothing: it can't be taken back later
  }
}
