// While nothing is stored: how one's own agents get here, and a sign that waits for the first event.

import * as api from "./api.js";
import { copyButton } from "./buttons.js";
import { fill, h } from "./dom.js";

const EVERY = 1500; // ms

/** A card that stands in place of `usual` until a thread is stored, or an event has come that the figures count. */
export function firstSteps(usual, figures, signal) {
  const card = h("section.card.first-steps", { hidden: true, "aria-labelledby": "first-steps" });
  look();
  return card;

  async function look() {
    let shown = false;
    while (!signal.aborted) {
      try {
        const { threads: [first] } = await api.json("/v1/threads", { limit: 1 }, signal);
        if (!first && !shown) {
          fill(card, await ways(signal));
          shown = true;
          card.hidden = false;
          usual.hidden = true;
        }
        if (shown) say(card.querySelector("[role=status]"), first, figures.sum(["events"], 900) > 0);
        if (first) {
          usual.hidden = false;
          return;
        }
      } catch {
        if (signal.aborted) return; // else the page says above what is wrong
      }
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  }
}

function say(place, thread, heard) {
  const told = thread ? "stored" : heard ? "heard" : "waiting";
  if (place.dataset.state === told) return;
  place.dataset.state = told;
  const words = { waiting: "Waiting for the first event…", heard: "The first event is here. Its turn is stored as soon as it ends.", stored: "Your first conversation is stored: " };
  fill(place, h("i.pulse", { "aria-hidden": "true" }), h("span", words[told], thread && h("a", { href: api.threadAddress(thread.thread_id, thread.tenant) }, thread.title || thread.external_id || "open it")));
}

async function ways(signal) {
  const { dev } = await api.json("/v1/status", {}, signal).catch(() => ({ dev: false }));
  const here = location.origin;
  const proxied = `export OPENAI_BASE_URL=${here}/proxy/openai/v1\nexport ANTHROPIC_BASE_URL=${here}/proxy/anthropic`;
  const upload = `curl --data-binary @stream.sse "${here}/v1/threads/my-first/runs/1/stream?dialect=openai-chat"`;
  return [
    h("h2", { id: "first-steps" }, "Nothing is here yet. Three ways in:"),
    h(
      "ol",
      way("Your program, unchanged", "In front of its command line. SDKs of models and of agents are found by themselves.", "turnmill run -- python agent.py"),
      dev ? way("By the address of its provider", "For programs in any language: set it, and start them.", proxied)
        : way("Any stream, over HTTP", "In whichever of the wires it is, as it came.", upload),
      way("Recorded agents, for a look around", "They talk as they did, with tools, sub-agents and failures.", "turnmill publish examples/fleet --speed 1"),
    ),
    h("p.notice.waiting", { role: "status" }),
  ];
}

function way(title, words, command) {
  return h("li", h("h3", title), h("p.muted", words), h("div.command", h("pre.code", { tabindex: "0" }, command), copyButton("Copy", () => command)));
}
