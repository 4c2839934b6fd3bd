// Runs beside the installed SDK: node ag_ui_reads.mjs FILE, FILE holding {name: {request: RunAgentInput, stream: text}}.
// A client posts the request and reads the stream, or what the server at `url` answers. Prints {name: {messages: [what it holds], problem: null | text}}.

import { readFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";

async function read({ request, stream, url }) {
  const fetch = async () => new Response(stream, { headers: { "content-type": "text/event-stream" } });
  const server = url ? { url } : { url: "http://agent", fetch };
  const agent = new HttpAgent({ ...server, threadId: request.threadId, initialMessages: request.messages });
  let problem = null;
  const note = ({ event, error }) => void (problem = String(event?.message ?? error));
  try {
    await agent.runAgent({ runId: request.runId }, { onRunErrorEvent: note, onRunFailed: note });
  } catch (error) {
    problem ??= String(error);
  }
  return { messages: agent.messages, problem };
}

const found = {};
for (const [name, run] of Object.entries(JSON.parse(readFileSync(process.argv[2], "utf8")))) found[name] = await read(run);
process.stdout.write(JSON.stringify(found));
