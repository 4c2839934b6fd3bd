// What a call, a turn or a thread has cost, and how that is known.

import { h } from "./dom.js";
import { dollars } from "./format.js";

const KINDS = { told: "Told by the stream", computed: "Computed from prices", estimated: "Estimated: the price depends on what is not known" };

/** Usage of a call, a turn or a thread -> element. Its title says whose figure it is; `reason`: the text says why there is none. */
export function costView(used, { what = "span", reason = false } = {}) {
  const { cost_usd: usd, cost_kind: kind, cost_told_usd: told, cost_computed_usd: computed, unpriced } = used;
  const title = [
    KINDS[kind],
    told !== null && `they differ: ${dollars(told)} told, ${dollars(computed)} computed`,
    ...used.prices.filter((price) => price !== "stream"),
    unpriced && `no price: ${unpriced}`,
  ].filter(Boolean).join("; ");
  const none = reason && unpriced ? `no price known: ${unpriced}` : "no price known";
  return h(what, { title: title || null }, usd === null ? none : `${kind === "estimated" ? "≈ " : ""}${dollars(usd)}${unpriced ? " +" : ""}`);
}
