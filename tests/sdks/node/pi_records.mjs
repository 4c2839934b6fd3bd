// Runs beside the installed SDK: node pi_records.mjs, an agent whose hook behind a tool throws, at several places: the
// agent makes an error result of it, and goes on. In the last case its model fails.
// Prints {name: {events: [AgentEvent], messages: [what the agent holds], error: null | text}}.

import { Agent } from "pi-agent-core";
import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";

const usage = { input: 7, output: 3, cacheRead: 0, cacheWrite: 0, totalTokens: 10 };
const head = { role: "assistant", api: "anthropic-messages", provider: "anthropic", model: "m" };

const text = (said) => ({ type: "text", text: said });
const call = (id, city) => ({ type: "toolCall", id, name: "weather", arguments: { city } });

function answer(content) {
  const stopReason = content.some(({ type }) => type === "toolCall") ? "toolUse" : "stop";
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  return { ...head, content, usage: { ...usage, cost }, stopReason, timestamp: Date.now() };
}

const weather = {
  name: "weather",
  label: "Weather",
  description: "Tells the weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  execute: async (_id, { city }) => ({ content: [text(`It rains in ${city}.`)], details: { city } }),
};

// What the hook does with the result of a call: it throws where the city is Atlantis, and changes what is said of Rome.
async function afterToolCall({ args: { city } }) {
  if (city === "Atlantis") throw new Error("the hook fails");
  if (city === "Rome") return { content: [text("The sun shines.")], isError: true };
}

async function record(answers, toolExecution) {
  const script = [...answers];
  const streamFn = () => {
    if (!script.length) throw new Error("the model fails");
    const message = answer(script.shift());
    const stream = createAssistantMessageEventStream();
    stream.push({ type: "start", partial: message });
    stream.push({ type: "done", reason: message.stopReason, message });
    return stream;
  };
  const agent = new Agent({ initialState: { tools: [weather] }, streamFn, afterToolCall, toolExecution });
  const events = [];
  agent.subscribe((event) => void events.push(structuredClone(event)));
  await agent.prompt("What's the weather?");
  return { events, messages: agent.state.messages, error: agent.state.errorMessage ?? null };
}

const done = [text("Done.")];
const paris = [text("Let me look."), call("c1", "Paris")];
const cases = {
  "it changes a result": [paris, [call("c2", "Rome")], done],
  "it throws at once": [[text("Let me look."), call("c1", "Atlantis")], done],
  "it throws behind a whole cycle": [paris, [text("And there?"), call("c2", "Atlantis")], done],
  "it throws at the second of two calls": [[...paris, call("c2", "Atlantis")], done],
  "it throws at the first of two calls": [[call("c1", "Atlantis"), call("c2", "Paris")], done],
  "its model fails": [paris],
};
const found = {};
for (const toolExecution of ["parallel", "sequential"])
  for (const [name, answers] of Object.entries(cases)) found[`${name} (${toolExecution})`] = await record(answers, toolExecution);
process.stdout.write(JSON.stringify(found));
