// The versions of an answer, or of a question, at the place where a thread forks.

import { h } from "./dom.js";

const seen = (mark) => mark && Array.isArray(mark.versions) && mark.versions.length > 1;

/**
 * Turns of one branch -> a function: turn -> the switch between the versions of its run, on the run's first turn; null
 * for all others. `address`: run id -> the link to the branch with this run.
 */
export function versionsOf(turns, address) {
  const first = new Map(); // by versions: of the newest one here, as it may answer words that an older one has asked
  for (const turn of turns) {
    const mark = turn["meta:branch"];
    if (!seen(mark)) continue;
    const place = JSON.stringify(mark.versions);
    if (first.get(place)?.["meta:branch"].run !== mark.run) first.set(place, turn);
  }
  const marked = new Set(first.values());
  return (turn) => (marked.has(turn) ? versionSwitch(turn["meta:branch"], address) : null);
}

function versionSwitch({ run, versions }, address) {
  const place = versions.indexOf(run);
  const step = (to, sign, label) =>
    versions[to] === undefined
      ? h("span.muted", { "aria-hidden": "true" }, sign)
      : h("a", { href: address(versions[to]), "aria-label": label, "data-focus": `${label} ${place}` }, sign);
  return h(
    "span.versions", { role: "group", "aria-label": `Version ${place + 1} of ${versions.length}` },
    step(place - 1, "‹", "Version before"),
    h("span.num", `${place + 1}/${versions.length}`),
    step(place + 1, "›", "Version behind"),
  );
}
