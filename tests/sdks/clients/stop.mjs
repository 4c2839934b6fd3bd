// Runs beside the installed SDKs: node stop.mjs SDK, with the SDK's own variables for address and key, and its own number
// of attempts. Each line of the input names a talk, which takes the place of NAME in the address, and says whether its
// answer is streamed. The provider talks until its connection ends. Prints for each talk how it ended.

import { createInterface } from "node:readline";

const [sdk] = process.argv.slice(2);
const address = (variable, name) => process.env[variable].replace("NAME", name);

async function chat(name, stream) {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ baseURL: address("OPENAI_BASE_URL", name) });
  const answer = await client.chat.completions.create({ model: "m", messages: [{ role: "user", content: name }], stream });
  if (stream) for await (const _ of answer);
}

async function responses(name, stream) {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ baseURL: address("OPENAI_BASE_URL", name) });
  if (stream) await client.responses.stream({ model: "m", input: name }).finalResponse();
  else await client.responses.create({ model: "m", input: name });
}

async function messages(name, stream) {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: address("ANTHROPIC_BASE_URL", name) });
  const asked = { model: "m", max_tokens: 9, messages: [{ role: "user", content: name }] };
  if (stream) await client.messages.stream(asked).finalText();
  else await client.messages.create(asked);
}

async function gemini(name, stream) {
  const { GoogleGenAI } = await import("@google/genai");
  const httpOptions = { baseUrl: address("GOOGLE_GEMINI_BASE_URL", name), retryOptions: { attempts: 3 } };
  const { models } = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY, httpOptions });
  const asked = { model: "m", contents: name };
  if (stream) for await (const _ of await models.generateContentStream(asked));
  else await models.generateContent(asked);
}

async function ai(name, stream) {
  const { generateText, streamText } = await import("ai");
  const { createOpenAI } = await import("@ai-sdk/openai");
  const { createAnthropic } = await import("@ai-sdk/anthropic");
  const openai = createOpenAI({ baseURL: address("OPENAI_BASE_URL", name) });
  const anthropic = createAnthropic({ baseURL: `${address("ANTHROPIC_BASE_URL", name)}/v1` });
  const model = { "ai-responses": () => openai("m"), "ai-chat": () => openai.chat("m"), "ai-messages": () => anthropic("m") }[sdk]();
  if (!stream) return void (await generateText({ model, prompt: name }));
  let problem = null;
  const result = streamText({ model, prompt: name, onError: ({ error }) => void (problem = error) });
  for await (const _ of result.textStream);
  if (problem) throw problem;
}

const talk = sdk.startsWith("ai-") ? ai : { chat, responses, messages, gemini }[sdk];
for await (const line of createInterface({ input: process.stdin })) {
  const { name, stream } = JSON.parse(line);
  let ended = { raised: [] };
  try {
    await talk(name, stream);
  } catch (error) {
    const raised = [error?.name ?? error?.constructor?.name ?? typeof error];
    const message = `${error?.message ?? JSON.stringify(error)} ${JSON.stringify(error?.error ?? null)}`;
    ended = { raised, status: error?.status ?? error?.statusCode ?? null, message };
  }
  process.stdout.write(`${JSON.stringify(ended)}\n`);
}
