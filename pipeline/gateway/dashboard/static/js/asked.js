// What the model was asked for each response: the body of its request, and what changed in it since the call before.

import * as api from "./api.js";
import { fill, h, icon } from "./dom.js";
import { jsonView } from "./json_view.js";

/** Turns in order -> a function: turn -> what its responses were asked, each fetched when it is unfolded. */
export function askedIn(turns, tenant, signal) {
  const bodies = new Map(); // hash -> promise
  const calls = new Map(); // turn -> [[hash, that of the call before]]
  const last = new Map(); // agent -> hash
  for (const turn of turns) {
    for (const message of Array.isArray(turn.messages) ? turn.messages : []) {
      const hash = message["meta:request"]?.sha256;
      if (!hash) continue;
      calls.set(turn, [...(calls.get(turn) ?? []), [hash, last.get(turn.agent_id)]]);
      last.set(turn.agent_id, hash);
    }
  }
  const body = (hash) => {
    if (!bodies.has(hash)) bodies.set(hash, api.json(`/v1/requests/${hash}`, { tenant }, signal));
    return bodies.get(hash);
  };
  return (turn) => {
    const distinct = (calls.get(turn) ?? []).filter(([hash, before], n) => n === 0 || hash !== before);
    return distinct.map(([hash, before]) => askedView(hash, before, body));
  };
}

function askedView(hash, before, body) {
  const place = h("div", h("p.muted", "Loading…"));
  const same = hash === before;
  const told = before ? (same ? "as in the call before" : "changed since the call before") : "first call here";
  const view = h("details.fold.asked", h("summary", icon("event"), h("b", "What the model was asked"), h("span.muted.cut", told)), place);
  view.addEventListener("toggle", async () => {
    if (!view.open || view.dataset.shown) return;
    view.dataset.shown = "true";
    try {
      const [now, then] = await Promise.all([body(hash), before && !same ? body(before) : null]);
      fill(place, then && [h("p.part-title", "Changed"), changes(then, now), h("p.part-title", "All of it")], jsonView(now), h("p.muted.small", h("code", hash)));
    } catch (error) {
      fill(place, h("p.problem", error.message));
    }
  });
  return view;
}

/** The members that differ, line by line. */
function changes(then, now) {
  const names = [...new Set([...Object.keys(then), ...Object.keys(now)])].sort();
  const differing = names.filter((name) => text(then[name]) !== text(now[name]));
  return differing.map((name) => h("div", h("code", name), h("pre.code.diff", { tabindex: "0" }, lines(text(then[name]), text(now[name])))));
}

function lines(then, now) {
  const [old, young] = [then, now].map((one) => (one === "" ? [] : one.split("\n")));
  let begin = 0;
  while (begin < Math.min(old.length, young.length) && old[begin] === young[begin]) begin += 1;
  let end = 0;
  while (end < Math.min(old.length, young.length) - begin && old[old.length - 1 - end] === young[young.length - 1 - end]) end += 1;
  const kept = old.slice(Math.max(0, begin - 2), begin).map((line) => `  ${line}\n`);
  const gone = old.slice(begin, old.length - end).map((line) => h("del", `- ${line}\n`));
  const come = young.slice(begin, young.length - end).map((line) => h("ins", `+ ${line}\n`));
  return [kept, gone, come];
}

/** A text as it is, anything else as indented JSON; nothing as no text. */
function text(value) {
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value, null, 2);
}
