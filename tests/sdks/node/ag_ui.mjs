// Runs beside the installed SDK: node ag_ui.mjs FILE, FILE holding {name: [AG-UI message]}.
// A client takes the messages as its history and goes on: what it posts is read as a server reads it, and answered.
// Prints {name: {problem: null | text}}.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { HttpAgent } from "@ag-ui/client";
import { EventType } from "@ag-ui/core";
import { MessageSchema, RunAgentInputSchema } from "@ag-ui/core/schemas";

const answer = [
  { type: EventType.RUN_STARTED, threadId: "t", runId: "r" },
  { type: EventType.TEXT_MESSAGE_START, messageId: "answer", role: "assistant" },
  { type: EventType.TEXT_MESSAGE_CONTENT, messageId: "answer", delta: "Going on." },
  { type: EventType.TEXT_MESSAGE_END, messageId: "answer" },
  { type: EventType.RUN_FINISHED, threadId: "t", runId: "r" },
];
const body = answer.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");

// Each result has its call before it, and each call its result, but for those behind which nothing was said.
function unpaired(messages) {
  const open = [];
  for (const [place, { role, toolCalls = [], toolCallId }] of messages.entries()) {
    const at = open.findIndex(({ id }) => id === toolCallId);
    if (role === "tool" && at < 0) return `messages[${place}]: no call of ${toolCallId}`;
    if (role === "tool") open.splice(at, 1);
    open.push(...toolCalls.map(({ id }) => ({ id, place })));
  }
  const end = messages.findLastIndex(({ role }) => role !== "tool");
  const spoken = messages.findLastIndex(({ role }, place) => role === "user" || (role === "tool" && place < end));
  const left = open.filter(({ place }) => place < spoken);
  return left.length ? `open calls ${JSON.stringify(left)}` : null;
}

async function check(messages) {
  let problem = "nothing was posted";
  const server = async (_url, { body: posted }) => {
    const input = RunAgentInputSchema.parse(JSON.parse(posted));
    problem = isDeepStrictEqual(input.messages, messages) ? unpaired(messages) : `posted ${JSON.stringify(input.messages)}`;
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  try {
    const strict = messages.map((message) => MessageSchema.parse(message));
    if (!isDeepStrictEqual(strict, messages)) return { problem: `reads ${JSON.stringify(strict)}` };
    const agent = new HttpAgent({ url: "http://agent", threadId: "t", initialMessages: structuredClone(messages), fetch: server });
    await agent.runAgent({ runId: "r" });
    const last = agent.messages.at(-1);
    return { problem: problem ?? (last.content === "Going on." ? null : `went on with ${JSON.stringify(last)}`) };
  } catch (error) {
    return { problem: String(error) };
  }
}

const found = {};
for (const [name, messages] of Object.entries(JSON.parse(readFileSync(process.argv[2], "utf8"))))
  found[name] = await check(messages);
process.stdout.write(JSON.stringify(found));
