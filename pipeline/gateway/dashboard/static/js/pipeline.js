// How far the pipeline is: lag of each group, what is stored, and whether every run is accounted for.

import * as api from "./api.js";
import { sparkline } from "./chart.js";
import { fill, h, icon } from "./dom.js";
import { ago, count, exact, many } from "./format.js";

const EVERY = 2000; // ms
const HELD = 150; // lags of a group: five minutes

export async function pipeline(main, signal, _query, state) {
  const body = h("div.stack");
  const lags = new Map(); // role -> its lag, since this page looks
  const ledger = ledgerCard(signal);
  const kills = killCard(signal);
  fill(main, h("div.controls", h("h1", "Pipeline")), body, kills.card, ledger);
  fill(body, h("p.state", "Loading…"));
  while (!signal.aborted) {
    try {
      const found = await api.json("/v1/status", {}, signal);
      state(found.problems.length ? "failing" : "live");
      show(found);
      if (found.dev) await kills.look();
    } catch (error) {
      if (signal.aborted) return;
      state("lost");
      if (!body.querySelector("[role=alert]")) body.prepend(h("p.notice.bad", { role: "alert" }, icon("alert"), h("span", error.message)));
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }

  function show(found) {
    const nothing = !found.roles && !found.store && !found.problems.length;
    ledger.hidden = nothing;
    const focused = document.activeElement?.dataset?.role;
    const unfolded = new Set([...body.querySelectorAll("details[open]")].map((one) => one.dataset.role));
    fill(
      body,
      nothing && h("p.notice", icon("alert"), h("span", "Your token is bound to a tenant: the pipeline's state is for those without one.")),
      found.problems.map((text) => h("p.notice.bad", { role: "alert" }, icon("alert"), h("span", text))),
      found.store && h(
        "section.tiles.four", { "aria-label": "In the store" },
        figure("Threads", found.store.threads), figure("Turns", found.store.turns),
        figure("Interrupted turns", found.store.interrupted), figure("Dead letters", found.dead_letters, "#/dead-letters"),
      ),
      found.roles && h("section.card", { "aria-labelledby": "lag" },
        h("header", h("h2", { id: "lag" }, "Consumer lag"), h("span.note", "records that a group has still to read")),
        found.roles.map((role) => group(role, unfolded.has(role.role)))),
    );
    for (const { role, lag } of found.roles ?? []) {
      lags.set(role, [...(lags.get(role) ?? []), lag].slice(-HELD));
      const line = body.querySelector(`summary[data-role="${CSS.escape(role)}"] canvas`);
      sparkline(line, [...new Array(HELD - lags.get(role).length).fill(null), ...lags.get(role)], 1);
    }
    if (focused) body.querySelector(`summary[data-role="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
}

// Of `turnmill dev` alone: kill the worker, and read how it recovers.
function killCard(signal) {
  const shown = h("div.stack", { role: "log", "aria-label": "How kills went" });
  const button = h("button", { type: "button" }, "Kill the worker");
  const card = h(
    "section.card", { hidden: true, "aria-labelledby": "kill" },
    h("header", h("h2", { id: "kill" }, "Kill the worker"), h("span.note", "with SIGKILL, in the middle of its work; nothing may be lost"), button),
    shown,
  );
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await api.post("/v1/dev/kills", signal);
    } catch (error) {
      if (!signal.aborted) fill(shown, h("p.notice.bad", { role: "alert" }, icon("alert"), h("span", error.message)));
    }
  });
  return {
    card,
    async look() {
      card.hidden = false;
      const kills = await api.json("/v1/dev/kills", {}, signal);
      button.disabled = kills.some((one) => !one.recovered);
      fill(shown, kills.map((one) => h("p", h("span.muted", `${ago(Date.now() - one.at)} ago`), " ", one.words)));
    },
  };
}

function figure(title, value, href) {
  const text = exact(value);
  return h("dl.card.tile", h("dt", title), h("dd.value", href ? h("a", { href }, text) : text));
}

function group(role, open) {
  const most = Math.max(1, ...role.partitions.map((one) => one.lag));
  const never = role.partitions.every((one) => one.committed === null);
  return h(
    "details.group", { open, "data-role": role.role },
    h(
      "summary", { "data-role": role.role },
      h("b", role.role), h("span.muted.cut", role.group),
      never && h("span.chip.warn", "no worker has committed"),
      h("canvas.spark", { "aria-hidden": "true", title: "The last five minutes, as far as this page was open" }),
      h("span.num.lag", { "data-lag": role.lag }, many(role.lag, "record")),
    ),
    h("div.scroll", { tabindex: "0", role: "region", "aria-label": `Partitions of ${role.group}` }, h(
      "table",
      h("caption.sr", `Lag of ${role.group} on ${role.topic}, by partition`),
      h("thead", h("tr", ["Partition", "Committed", "End", "Lag"].map((text) => h("th", { scope: "col" }, text)), h("td"))),
      h("tbody", role.partitions.map((one) => {
        const bar = h("i.bar");
        bar.style.width = `${(one.lag / most) * 100}%`;
        return h("tr", h("th", { scope: "row" }, one.partition), h("td", exact(one.committed)), h("td", exact(one.end)), h("td", exact(one.lag)), h("td.bars", { "aria-hidden": "true" }, bar));
      })),
    )),
  );
}

function ledgerCard(signal) {
  const result = h("div", { role: "status" }, h("p.muted.small", "Reads the events topic from end to end, so it takes a moment, and only when asked."));
  const button = h("button", { type: "button" }, "Take stock");
  button.addEventListener("click", async () => {
    button.disabled = true;
    fill(result, h("p.state", "Reading the events topic…"));
    try {
      const { runs, stored, dead, open, removed, oldest_open_ms: oldest } = await api.json("/v1/ledger", {}, signal);
      fill(
        result,
        h("p.ledger", part(runs, "runs seen", "total"), "=", part(stored, "stored"), "+", part(dead, "dead-lettered"), "+", part(open, "open")),
        h("p.muted.small", runs === stored + dead + open ? "Every run is accounted for." : "The sums differ: see `turnmill doctor`.",
          removed ? ` Retention removed ${removed} records before they were read: see the audit log.` : "",
          oldest ? ` The open run that is silent for longest: ${ago(oldest)}.` : ""),
      );
    } catch (error) {
      if (!signal.aborted) fill(result, h("p.notice", { role: "alert" }, error.message));
    }
    button.disabled = false;
  });
  return h("section.card", { "aria-labelledby": "ledger" },
    h("header", h("h2", { id: "ledger" }, "Loss ledger"), h("span.note", "each run that was seen is stored, a dead letter, or open"), button), result);
}

function part(value, text, name) {
  return h(`span.term${name ? `.${name}` : ""}`, h("b", { title: exact(value) }, count(value)), h("span.muted", text));
}
