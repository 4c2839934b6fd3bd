// What needs somebody: alerts that are on, runs that are silent for longer than usual, threads that wait for an answer.

import * as api from "./api.js";
import { question } from "./control.js";
import { fill, h } from "./dom.js";
import { ago, dollars, duration, exact, inFull } from "./format.js";

const EVERY = 5000; // ms
const SHOWN = 20; // rows of each list
const KINDS = { approval: "approval", input: "answer", result: "result" };

export const keyOf = (run) => JSON.stringify([run.tenant, run.thread_id, run.run_id, run.asked?.[0].answer_id]);

/**
 * Three lists, which are there only while they have rows. `only`: agent and tenant, as the page is filtered; `silent` is
 * called with the keys of the silent runs, `trouble` with why nothing is known, or null.
 */
export function attention(only, signal, silent, trouble) {
  const hanging = card("silent-runs", "Silent for longer than usual", hangingRow, signal);
  const waiting = card("waiting", "Waiting for an answer", waitingRow, signal);
  const alerts = alertCard();
  const element = h("div.attention", alerts.element, hanging.element, waiting.element);
  look();
  return element;

  async function look() {
    while (!signal.aborted) {
      if (!document.hidden) {
        const answers = await Promise.allSettled([
          api.json("/v1/alerts", { tenant: only.tenant }, signal), ask({ status: "open", silent: true }), ask({ status: "waiting" }),
        ]);
        if (signal.aborted) return;
        const [on, runs, threads] = answers.map((answer) => answer.value); // undefined for what is not known now
        if (on) alerts.show(on.alerts);
        if (runs) {
          silent(new Set(runs.map(keyOf)));
          hanging.show(runs);
        }
        if (threads) waiting.show(threads);
        const error = answers.find((answer) => answer.reason)?.reason;
        trouble(error?.status ? error.message : null);
      }
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  }

  async function ask(query) {
    const { agent, tenant } = only;
    return (await api.json("/v1/runs", { ...query, agent, tenant, limit: SHOWN + 1 }, signal)).runs;
  }
}

function card(id, title, row, signal) {
  const list = h("ul.rows.needed");
  const number = h("span.figure");
  const element = h("section.card", { "aria-labelledby": id, hidden: true }, h("header", h("h2", { id }, title), number), list);
  const rows = new Map(); // those that stay keep the focus
  return {
    element,
    show(found) {
      element.hidden = !found.length;
      number.textContent = found.length > SHOWN ? `more than ${exact(SHOWN)}` : exact(found.length);
      const wanted = found.slice(0, SHOWN).map((one) => [keyOf(one), one]);
      const named = new Set(wanted.map(([key]) => key));
      for (const [key, held] of rows) {
        if (!named.has(key)) {
          held.remove();
          rows.delete(key);
        }
      }
      let before = null;
      for (const [key, one] of wanted) {
        const asksItself = one.turn_id === ""; // a budget: there is no thread to look at
        if (!rows.has(key)) rows.set(key, h("li", asksItself ? question(one.external_id, { ...one.asked[0], tenant: one.tenant }, signal) : h("a.row", { href: api.threadAddress(one.thread_id, one.tenant, one.asked ? null : 1) })));
        const held = rows.get(key);
        if (!asksItself) fill(held.firstChild, row(one));
        const place = before ? before.nextSibling : list.firstChild;
        if (place !== held) list.insertBefore(held, place);
        before = held;
      }
    },
  };
}

// Figure of an alert -> its name, how its values are shown, and the list of threads that it is about.
const FIGURES = {
  cost_usd: ["Cost", dollars, { sort: "cost" }],
  error_rate: ["Errors", (share) => `${(share * 100).toFixed(1)} %`, { status: "interrupted" }],
  ttft_p95_ms: ["First token, p95", duration, {}],
  duration_p95_ms: ["Latency, p95", duration, { sort: "duration" }],
  feedback: ["Feedback", (mean) => mean.toFixed(2), {}],
};

/** The alerts that are on, each a link to the threads of the time that it looks at. */
function alertCard() {
  const list = h("ul.rows.needed");
  const number = h("span.figure");
  const element = h("section.card", { "aria-labelledby": "alerts", hidden: true }, h("header", h("h2", { id: "alerts" }, "Alerts"), number), list);
  let shown = "[]";
  return {
    element,
    show(alerts) {
      const rows = alerts.flatMap((alert) => alert.on.map((on) => [alert, on]));
      if (JSON.stringify(rows) === shown) return; // rows that stay keep the focus
      shown = JSON.stringify(rows);
      element.hidden = !rows.length;
      number.textContent = exact(rows.length);
      fill(list, rows.map(([alert, on]) => h("li", alertRow(alert, on))));
    },
  };
}

function alertRow(alert, on) {
  const [name, words, threads] = FIGURES[alert.figure];
  const judged = alert.feedback && { feedback: alert.above === null ? `${alert.feedback}<${alert.below}` : `${alert.feedback}>${alert.above}` };
  const since = Date.parse(on.since);
  const times = { from: new Date(since - alert.within_ms).toISOString(), to: new Date().toISOString() };
  const limit = alert.above === null ? `below ${words(alert.below)}` : `above ${words(alert.above)}`;
  const of = Object.entries(on.of).map(([kind, label]) => `${kind} ${label || "none"}`);
  return h(
    "a.row", { href: api.threadsAddress({ ...on.of, ...threads, ...judged, ...times }) },
    h("span.chip.warn", `${alert.feedback ?? name} ${words(on.value)}`),
    h("b", alert.name),
    h("span.said", [...of, `${limit} within ${ago(alert.within_ms)}`].join(", ")),
    h("time.num.muted", { datetime: on.since, title: inFull(since) }, ago(Date.now() - since)),
  );
}

function hangingRow(run) {
  const usual = `Usually silent for less than ${ago(run.usual_silence_ms)}. Closed as interrupted at ${inFull(run.deadline_at)}, if it says nothing`;
  return [
    h("span.chip.warn", { title: usual }, `silent ${ago(run.silence_ms)}`),
    h("b", run.agent_name ?? run.agent_id),
    h("span.said", "last: ", run.last_event ? h("code", run.last_event) : "an event without a type"),
    h("span.num.muted", ago(run.age_ms)),
  ];
}

function waitingRow(run) {
  const [first, ...more] = run.asked;
  return [
    h("span.chip.warn", KINDS[first.kind] ?? first.kind),
    h("b", run.agent_name ?? run.agent_id),
    h("span.said", first.tool_name && h("code", first.tool_name), " ", first.message ?? (first.args === null ? "" : JSON.stringify(first.args)), more.length > 0 && ` and ${exact(more.length)} more`),
    h("time.num.muted", { datetime: new Date(run.since).toISOString(), title: inFull(run.since) }, ago(Date.now() - run.since)),
  ];
}
