// What was refused, why, and the original bytes: as text, never as anything else.

import * as api from "./api.js";
import { attempt } from "./attempt.js";
import { labelled, select } from "./controls.js";
import { fill, h, icon, save as saveAs } from "./dom.js";
import { bytes, exact, inFull, moment } from "./format.js";

const REASONS = [
  "undecodable", "not_an_envelope", "unsupported_version", "unknown_dialect", "invalid_event", "protocol_violation",
  "too_large", "unprocessable", "late_event",
];

export function deadLetters(main, signal, query) {
  const reason = query.get("reason") ?? "";
  const list = h("div.letters");
  const message = h("p.state", { role: "status" }, "Loading…");
  const number = h("span.figure");
  const choose = select([["", "Any reason"], ...REASONS.map((one) => [one, one.replaceAll("_", " ")])], reason, (value) => {
    location.hash = value ? `#/dead-letters?reason=${value}` : "#/dead-letters";
  }, { "data-focus": "reason" });
  fill(
    main,
    h("div.controls", h("h1", "Dead letters"), h("div.filters", labelled("Reason", choose))),
    h("section.card", { "aria-label": "Newest dead letters" }, h("header", h("p.muted", "Records that could not be used, the newest first. ", h("code", "turnmill dlq redrive"), " tries them again."), number), list, message),
  );
  attempt(message, signal, async () => {
    const { letters, total } = await api.json("/v1/dead-letters", { reason: reason || null, limit: 100 }, signal);
    fill(list, letters.map((letter) => row(letter, signal)));
    number.textContent = total > letters.length ? `${exact(letters.length)} of ${exact(total)}` : "";
    return letters.length ? "" : total && reason ? "None of the newest has this reason" : "No record was refused";
  });
}

function row(letter, signal) {
  const save = h("button.quiet.small", { type: "button" }, icon("file"), `Save the original (${bytes(letter.size)})`);
  save.addEventListener("click", async () => {
    save.disabled = true;
    try {
      const original = await api.blob(`/v1/dead-letters/${letter.partition}/${letter.offset}`, {}, signal);
      saveAs(new Blob([original], { type: "application/octet-stream" }), `dead-letter-${letter.partition}-${letter.offset}.bin`);
    } catch (error) {
      if (!signal.aborted) save.textContent = error.message;
    }
    save.disabled = false;
  });
  return h(
    "details.letter",
    h(
      "summary",
      h("span.chip.bad", letter.reason.replaceAll("_", " ")),
      h("span.cut", letter.detail),
      h("time.num.muted", { datetime: new Date(letter.time).toISOString(), title: inFull(letter.time) }, moment(letter.time)),
    ),
    h(
      "div.inside",
      h("p.muted.small", `Refused on ${letter.topic}, partition ${letter.from_partition}, offset ${letter.from_offset}`,
        letter.redriven > 0 && `, after ${letter.redriven} redrives`, letter.key && [", key ", h("code", letter.key)], ". ",
        "As a dead letter it is at ", h("code", `${letter.partition}:${letter.offset}`), "."),
      h("pre.code", { tabindex: "0" }, letter.preview + (letter.size > letter.preview.length ? "…" : "")),
      save,
    ),
  );
}
