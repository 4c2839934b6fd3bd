// Runs beside the installed SDKs: node continue.mjs CASE, with the SDK's own variables for address and key. It talks,
// and prints the SDK's own history as JSON: [[role, text], …].

const CASES = { "tool runner": toolRunner, "broken thread": brokenThread, "ai sdk": aiSdk };

async function toolRunner() {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const { betaZodTool } = await import("@anthropic-ai/sdk/helpers/beta/zod");
  const { z } = await import("zod");
  const weather = betaZodTool({
    name: "weather",
    description: "Tell the weather.",
    inputSchema: z.object({ city: z.string() }),
    run: async ({ city }) => `It is sunny in ${city}.`,
  });
  const asked = { model: "claude-x", max_tokens: 100, system: "Be brief.", tools: [weather] };
  const client = new Anthropic({ maxRetries: 0 });
  const runner = client.beta.messages.toolRunner({ ...asked, messages: [{ role: "user", content: "js: weather?" }] });
  await runner.runUntilDone();
  return runner.params.messages;
}

async function brokenThread() {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic({ maxRetries: 0 });
  const thread = client.beta.messages.thread({ model: "claude-x", max_tokens: 100, system: "Be brief." });
  for (const words of ["js thread: one", "forget this", "again", "refuse", "fall back", "again"])
    await thread.send({ role: "user", content: words });
  return thread.messages;
}

async function aiSdk() {
  const { createGoogle } = await import("@ai-sdk/google");
  const { streamText, generateText } = await import("ai");
  const google = createGoogle({ baseURL: `${process.env.GOOGLE_GEMINI_BASE_URL}/v1beta`, apiKey: process.env.GEMINI_API_KEY });
  const model = google("gemini-4-pro");
  const messages = [{ role: "user", content: "ai sdk: count" }];
  const first = streamText({ model, messages, maxRetries: 0 });
  messages.push({ role: "assistant", content: await first.text }, { role: "user", content: "count on" });
  messages.push({ role: "assistant", content: (await generateText({ model, messages, maxRetries: 0 })).text });
  return messages;
}

process.stdout.write(JSON.stringify(await CASES[process.argv[2]]()));
