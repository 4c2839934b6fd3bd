// Runs beside the installed SDKs: node speak.mjs SDK WAY, with the SDK's own variables for address and key. It asks, and
// prints what the SDK gives back as JSON: {text} or {status, problem}. WAY: stream, whole, or abort (behind the first piece).
// The AI SDK also takes several steps with a tool, `steps`, and asks again where it is refused, `again`: {text, steps}.

const [sdk, way] = process.argv.slice(2);
const QUESTION = "What's the weather?";

async function chat() {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ maxRetries: 0 });
  const messages = [{ role: "user", content: QUESTION }];
  if (way === "whole") {
    const answer = await client.chat.completions.create({ model: "gpt-5", messages });
    return answer.choices[0].message.content;
  }
  let text = "";
  const stream = await client.chat.completions.create({ model: "gpt-5", messages, stream: true });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    if (way === "abort") break;
  }
  return text;
}

async function responses() {
  const { default: OpenAI } = await import("openai");
  const stream = new OpenAI({ maxRetries: 0 }).responses.stream({ model: "gpt-5", input: QUESTION });
  return (await stream.finalResponse()).output_text;
}

async function messages() {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const asked = { model: "claude-x", max_tokens: 100, messages: [{ role: "user", content: QUESTION }] };
  return await new Anthropic({ maxRetries: 0 }).messages.stream(asked).finalText();
}

async function gemini() {
  const { GoogleGenAI } = await import("@google/genai");
  const options = { baseUrl: process.env.GOOGLE_GEMINI_BASE_URL };
  const client = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY, httpOptions: options });
  let text = "";
  for await (const piece of await client.models.generateContentStream({ model: "gemini-x", contents: QUESTION }))
    text += piece.text ?? "";
  return text;
}

async function ai() {
  const { generateText, streamText, stepCountIs, tool } = await import("ai");
  const { openai } = await import("@ai-sdk/openai");
  const { anthropic } = await import("@ai-sdk/anthropic");
  const { z } = await import("zod");
  const model = { "ai-responses": () => openai("gpt-5"), "ai-chat": () => openai.chat("gpt-5"), "ai-messages": () => anthropic("claude-x") }[sdk]();
  const execute = async ({ city }) => `It is sunny in ${city}.`;
  const weather = tool({ description: "Tell the weather.", inputSchema: z.object({ city: z.string() }), execute });
  const stopping = new AbortController();
  const asked = { model, prompt: QUESTION, maxRetries: way === "again" ? 2 : 0, abortSignal: stopping.signal };
  if (way === "whole" || way === "again") return { text: (await generateText(asked)).text };
  let problem = null;
  const onError = ({ error }) => void (problem = error);
  const result = streamText({ ...asked, onError, ...(way === "steps" && { tools: { weather }, stopWhen: stepCountIs(5) }) });
  let text = "";
  for await (const piece of result.textStream) {
    text += piece;
    if (way === "abort") stopping.abort();
  }
  if (problem) throw problem;
  if (way !== "steps") return { text };
  const steps = (await result.steps).map((step) => ({
    text: step.text,
    calls: step.toolCalls.map((call) => [call.toolName, call.toolCallId, call.input]),
    results: step.toolResults.map((result) => [result.toolCallId, result.output]),
    tokens: [step.usage.inputTokens, step.usage.outputTokens],
  }));
  return { text, steps };
}

try {
  const spoken = sdk.startsWith("ai-") ? await ai() : { text: await { chat, responses, messages, gemini }[sdk]() };
  process.stdout.write(JSON.stringify(spoken));
} catch (error) {
  process.stdout.write(JSON.stringify({ status: error.status ?? error.statusCode ?? null, problem: String(error.message ?? error) }));
}
