// Runs beside the installed SDK: node pi_agent.mjs FILE, FILE holding {name: [pi message]}.
// An agent takes the messages as its history and goes on. Prints {name: {problem: null | text, told: [message]}}, where
// `told` is the history that its model was called with.

import { readFileSync } from "node:fs";
import { Agent } from "pi-agent-core";
import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";

const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
const answer = {
  role: "assistant",
  content: [{ type: "text", text: "Going on." }],
  api: "anthropic-messages",
  provider: "anthropic",
  model: "m",
  usage: { ...usage, cost: { ...usage, total: 0 } },
  stopReason: "stop",
  timestamp: 0,
};

async function check(messages) {
  let told = [];
  const streamFn = (_model, context) => {
    told = structuredClone(context.messages);
    const stream = createAssistantMessageEventStream();
    stream.push({ type: "start", partial: answer });
    stream.push({ type: "done", reason: "stop", message: answer });
    return stream;
  };
  try {
    const agent = new Agent({ initialState: { messages: structuredClone(messages) }, streamFn });
    await agent.prompt("And now?");
    const last = agent.state.messages.at(-1);
    const problem = last.content?.[0]?.text === "Going on." ? null : `went on with ${JSON.stringify(last)}`;
    return { problem: agent.state.error ?? problem, told: told.slice(0, -1) };
  } catch (error) {
    return { problem: String(error), told };
  }
}

const found = {};
for (const [name, messages] of Object.entries(JSON.parse(readFileSync(process.argv[2], "utf8"))))
  found[name] = await check(messages);
process.stdout.write(JSON.stringify(found));
