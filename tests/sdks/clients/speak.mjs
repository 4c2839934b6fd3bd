// Runs beside the installed SDKs: node speak.mjs SDK WAY, with the SDK's own variables for address and key. It asks, and
// prints what the SDK gives back as JSON: {text} or {status, problem}. WAY: stream, whole, or abort (behind the first piece).

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

try {
  const text = await { chat, responses, messages, gemini }[sdk]();
  process.stdout.write(JSON.stringify({ text }));
} catch (error) {
  process.stdout.write(JSON.stringify({ status: error.status ?? null, problem: String(error.message ?? error) }));
}
