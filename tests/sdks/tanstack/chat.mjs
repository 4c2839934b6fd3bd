// TanStack AI before a provider on loopback that calls two tools, then answers. Prints what it yields, an event a line.
import { createServer } from "node:http";
import { chat, toolDefinition } from "@tanstack/ai";
import { createOpenaiChatCompletions } from "@tanstack/ai-openai";

const call = (index, id, city) => ({
  tool_calls: [{ index, id, type: "function", function: { name: "weather", arguments: JSON.stringify({ city }) } }],
});
const chunk = (delta, finish_reason = null) => ({
  id: "c",
  object: "chat.completion.chunk",
  created: 1,
  model: "gpt-5-mini",
  choices: [{ index: 0, delta, finish_reason }],
});
const usage = (prompt_tokens, completion_tokens) => ({
  ...chunk({}),
  choices: [],
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
});
const answers = [
  [chunk(call(0, "call_1", "Bern")), chunk(call(1, "call_2", "Rome")), chunk({}, "tool_calls"), usage(40, 8)],
  [chunk({ content: "Both are " }), chunk({ content: "sunny today." }), chunk({}, "stop"), usage(20, 10)],
];
const provider = createServer((request, response) => {
  request.resume().on("end", () => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const one of answers.shift()) response.write(`data: ${JSON.stringify(one)}\n\n`);
    response.end("data: [DONE]\n\n");
  });
}).listen(0, "127.0.0.1", async () => {
  const baseURL = `http://127.0.0.1:${provider.address().port}/v1`;
  const weather = toolDefinition({
    name: "weather",
    description: "The weather of a city.",
    inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  }).server(async ({ city }) => ({ city, sky: "sunny" }));
  const adapter = createOpenaiChatCompletions("gpt-5-mini", "k", { baseURL });
  const messages = [{ role: "user", content: "Bern and Rome?" }];
  for await (const event of chat({ adapter, messages, tools: [weather] })) console.log(JSON.stringify(event));
  provider.close();
});
