// Commands to runs: stop, steer, answer. What is shown is what the gateway knows became of each.

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { person } from "./person.js";

const EVERY = 500; // ms between two looks at a command
const SETTLED = new Set(["ended", "completed", "refused", "unanswered"]);
const SAYS = { requested: "requested", acknowledged: "heard", ended: "ended", completed: "it was over before", unanswered: "nobody answers" };

const place = (id) => `/v1/threads/${encodeURIComponent(id)}`;

/** Gives a command, and shows each of its states in `status`; `last`: the state behind which nobody waits. */
async function give(path, tenant, body, status, signal, last = "ended") {
  status.classList.remove("problem");
  status.textContent = "requested";
  try {
    const given = await api.send("POST", api.url(path, { tenant }), body, signal);
    for (;;) {
      const { state, reason } = await api.json(`/v1/commands/${given.command_id}`, {}, signal);
      status.textContent = state === "refused" ? `refused: ${reason}` : SAYS[state];
      status.classList.toggle("problem", state === "refused" || state === "unanswered");
      if (SETTLED.has(state) || state === last) return state;
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  } catch (error) {
    if (signal.aborted) return null;
    status.textContent = error.message;
    status.classList.add("problem");
    return null;
  }
}

function allowed() {
  const why = person.refused("control");
  return { disabled: why !== null, title: why ?? "" };
}

/** A button that stops a run, with what becomes of that beside it. */
export function stopButton(thread, run, tenant, signal) {
  const status = h("span.muted.small", { role: "status" });
  const button = h("button.small", { type: "button", "aria-label": `Stop the run ${run}`, ...allowed() }, "Stop");
  button.addEventListener("click", async () => {
    button.disabled = true;
    const state = await give(`${place(thread)}/runs/${encodeURIComponent(run)}/stop`, tenant, {}, status, signal);
    button.disabled = state === "ended" || state === "completed";
  });
  return h("span.command", button, status);
}

/** A field for a message to a run. */
export function steerForm(thread, run, tenant, signal) {
  const status = h("span.muted.small", { role: "status" });
  const text = h("input", { type: "text", maxlength: 10_000, required: true, autocomplete: "off", placeholder: "Tell it something", "aria-label": `Message to the run ${run}` });
  const form = h("form.command", text, h("button.small", { type: "submit", ...allowed() }, "Send"), status);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (!said) return;
    text.value = "";
    give(`${place(thread)}/runs/${encodeURIComponent(run)}/steer`, tenant, { text: said }, status, signal, "acknowledged");
  });
  return form;
}

/** What the newest turn of a thread asks for, each with a way to answer. `load` asks for it again. */
export function questions(thread, whose, signal) {
  const element = h("section.questions", { "aria-label": "Waiting for an answer", hidden: true });
  const shown = new Map(); // answer id -> element: what somebody types stays
  return {
    element,
    async load() {
      const { runs } = await api.json("/v1/runs", { status: "waiting", thread, ...whose }, signal).catch(() => ({ runs: [] }));
      const asked = runs.flatMap((run) => run.asked.map((one) => ({ ...one, tenant: run.tenant })));
      for (const one of asked) if (!shown.has(one.answer_id)) shown.set(one.answer_id, question(thread, one, signal));
      const wanted = asked.map((one) => shown.get(one.answer_id));
      element.hidden = !wanted.length;
      if (wanted.some((one, n) => element.children[n] !== one) || element.children.length !== wanted.length) fill(element, wanted);
    },
  };
}

/** A question, with a field and buttons to answer it. `asked`: it has its thread's tenant. */
export function question(thread, asked, signal) {
  const status = h("span.muted.small", { role: "status" });
  const isApproval = asked.kind === "approval";
  const what = asked.message ?? (asked.args === null ? "" : JSON.stringify(asked.args));
  const text = h("input", { type: "text", autocomplete: "off", required: !isApproval, placeholder: isApproval ? "Reason, if you like" : "Answer", "aria-label": isApproval ? "Reason" : "Answer" });
  const answer = (value) => give(`${place(thread)}/answers/${asked.answer_id}`, asked.tenant, { value }, status, signal, "acknowledged");
  const approve = (approved) => answer({ approved, ...(text.value.trim() ? { reason: text.value.trim() } : {}) });
  const buttons = isApproval
    ? [h("button.small.primary", { type: "button", onclick: () => approve(true), ...allowed() }, "Approve"), h("button.small", { type: "button", onclick: () => approve(false), ...allowed() }, "Deny")]
    : [h("button.small.primary", { type: "submit", ...allowed() }, "Answer")];
  const form = h("form.command", text, buttons, status);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!isApproval) answer(valueOf(text.value));
  });
  return h("article.question", h("p", h("span.chip.warn", isApproval ? "approval" : "question"), " ", asked.tool_name && h("code", asked.tool_name), " ", what), form);
}

/** JSON where the text is some, else the text. */
function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
