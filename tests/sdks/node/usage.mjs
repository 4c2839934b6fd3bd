// Runs beside the installed SDKs: node usage.mjs FILE. A model of each tells usage with every count that its types know,
// and agents hand out what they stream. Prints {sdk: [event]}.

import { Agent } from "pi-agent-core";
import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";

const [read, cached, kept, written, thoughts] = [1000, 400, 150, 300, 80];
const flat = {
  inputTokens: read,
  outputTokens: written,
  totalTokens: read + written,
  reasoningTokens: thoughts,
  cachedInputTokens: cached,
};
const deep = {
  inputTokens: { total: read, noCache: read - cached - kept, cacheRead: cached, cacheWrite: kept },
  outputTokens: { total: written, text: written - thoughts, reasoning: thoughts },
};
const SPECIFICATIONS = { "ai-5": ["v2", flat, "stop"], "ai-6": ["v3", deep, { unified: "stop", raw: "stop" }] };
SPECIFICATIONS["ai-7"] = ["v4", ...SPECIFICATIONS["ai-6"].slice(1)];

async function aiSdk(name) {
  const { streamText } = await import(name);
  const [specificationVersion, usage, finishReason] = SPECIFICATIONS[name];
  const chunks = [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id: "1" },
    { type: "text-delta", id: "1", delta: "It rains." },
    { type: "text-end", id: "1" },
    { type: "finish", finishReason, usage },
  ];
  const doStream = async () => ({ stream: ReadableStream.from(chunks) });
  const model = { specificationVersion, provider: "mock", modelId: "m", supportedUrls: {}, doStream };
  const messageMetadata = ({ part }) => (part.type === "finish" ? { usage: part.totalUsage } : undefined);
  const events = [];
  for await (const event of streamText({ model, prompt: "Rain?" }).toUIMessageStream({ messageMetadata }))
    events.push(structuredClone(event));
  return events;
}

async function pi() {
  const usage = { input: read - cached - kept, output: written, cacheRead: cached, cacheWrite: kept };
  const cost = { input: 0.1, output: 0.2, cacheRead: 0.03, cacheWrite: 0.04, total: 0.37 };
  const message = {
    ...{ role: "assistant", api: "anthropic-messages", provider: "anthropic", model: "m", timestamp: 0 },
    ...{ content: [{ type: "text", text: "It rains." }], stopReason: "stop" },
    usage: { ...usage, totalTokens: read + written, cost },
  };
  const streamFn = () => {
    const stream = createAssistantMessageEventStream();
    stream.push({ type: "start", partial: message });
    stream.push({ type: "done", reason: "stop", message });
    return stream;
  };
  const agent = new Agent({ initialState: {}, streamFn });
  const events = [];
  agent.subscribe((event) => void events.push(structuredClone(event)));
  await agent.prompt("Rain?");
  return events;
}

const found = { pi: await pi() };
for (const name of Object.keys(SPECIFICATIONS)) found[name] = await aiSdk(name);
process.stdout.write(JSON.stringify(found));
