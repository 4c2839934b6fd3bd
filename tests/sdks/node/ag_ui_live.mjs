// Runs beside the installed SDK: node ag_ui_live.mjs URL THREAD_ID, a client of AG-UI that connects to a thread while its
// agent speaks. Prints a line {"seen": N} for each message's piece, then {messages, types, problem: null | text}: what the
// client holds, the types of the events that it was given, and what it took for an error.

import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";

const [url, threadId] = process.argv.slice(2);

class LiveAgent extends HttpAgent {
  connect() {
    return transformHttpEventStream(runHttpRequest(() => fetch(this.url)));
  }
}

const types = [];
let problem = null;
let seen = 0;
const agent = new LiveAgent({ url: `${url}/v1/threads/${threadId}/live?dialect=ag-ui`, threadId });
try {
  await agent.connectAgent({}, {
    onEvent: ({ event }) => void types.push(event.type),
    onTextMessageContentEvent: () => void process.stdout.write(`${JSON.stringify({ seen: ++seen })}\n`),
    onRunErrorEvent: ({ event }) => void (problem = `${event.code}: ${event.message}`),
    onRunFailed: ({ error }) => void (problem ??= String(error)),
  });
} catch (error) {
  problem ??= String(error);
}
process.stdout.write(`${JSON.stringify({ messages: agent.messages, types: [...new Set(types)], problem })}\n`);
