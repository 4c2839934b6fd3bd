// The versions of an answer, or of a question, at the place where a thread forks.

import { h } from "./dom.js";

/** {number, of, first, before?, next?} of a turn, the latter runs; undefined of one that has no other version. */
export const versionOf = (turn) => turn["meta:branch"]?.version;

/**
 * Turns of one branch -> a function: turn -> the switch between the versions of its run, on the run's first turn; null
 * for all others. `address`: run id -> the link to the branch with this run.
 */
export function versionsOf(turns, address) {
  const first = new Map(); // by the place's first version: of the newest one here, as it may answer words that an older one has asked
  for (const turn of turns) {
    const place = versionOf(turn)?.first;
    if (place && first.get(place)?.["meta:branch"].run !== turn["meta:branch"].run) first.set(place, turn);
  }
  const marked = new Set(first.values());
  return (turn) => (marked.has(turn) ? versionSwitch(versionOf(turn), address) : null);
}

function versionSwitch({ number, of, before, next }, address) {
  const step = (run, sign, label) =>
    run === undefined
      ? h("span.muted", { "aria-hidden": "true" }, sign)
      : h("a", { href: address(run), "aria-label": label, "data-focus": `${label} ${number}` }, sign);
  return h(
    "span.versions", { role: "group", "aria-label": `Version ${number} of ${of}` },
    step(before, "‹", "Version before"),
    h("span.num", `${number}/${of}`),
    step(next, "›", "Version behind"),
  );
}
