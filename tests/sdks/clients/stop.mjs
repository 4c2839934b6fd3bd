// Runs beside the installed SDKs: node stop.mjs SDK [PROGRAM], with the SDK's own variables for address and key, and its own number
// of attempts. Each line of the input names a talk, which takes the place of NAME in the address, and says whether its
// answer is streamed. The provider talks until its connection ends. Prints for each talk how it ended.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [sdk, program] = process.argv.slice(2);
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

/** Run the program to its end, in a home of its own. */
async function run(given, variables) {
  const home = mkdtempSync(join(tmpdir(), "stop-"));
  const env = { ...process.env, HOME: home, ...variables };
  const child = spawn(program, given, { cwd: home, env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => void (said += chunk));
  await new Promise((resolve) => child.on("close", resolve));
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  throw Object.assign(new Error(said), { name: "Exit", status: child.exitCode });
}

async function claude(name) {
  const quiet = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" };
  const variables = { ...quiet, ANTHROPIC_BASE_URL: address("ANTHROPIC_BASE_URL", name) };
  await run(["-p", name, "--model", "m"], variables);
}

async function codex(name) {
  const provider = `{name="talk",base_url="${address("OPENAI_BASE_URL", name)}",env_key="OPENAI_API_KEY",wire_api="responses"}`;
  const settings = ['model_provider="talk"', `model_providers.talk=${provider}`, 'model="m"'].flatMap((one) => ["-c", one]);
  await run(["exec", "--skip-git-repo-check", ...settings, name], {});
}

const talk = sdk.startsWith("ai-") ? ai : { chat, responses, messages, gemini, claude, codex }[sdk];
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
