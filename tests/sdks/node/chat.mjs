// Runs beside the installed SDK: node chat.mjs PACKAGE URL CHAT_ID, a client as `useChat` is one. It sends a message and
// reads the answer with the SDK's own transport and reader. Prints a line {"seen": N} for each 50 chunks while it reads,
// then {raw: the bytes of the stream in base64, message: the UIMessage that the SDK made of it, problem: null | text}.

const [packageName, api, id] = process.argv.slice(2);
const { DefaultChatTransport, readUIMessageStream } = await import(packageName);

const raw = [];
let seen = 0;
const fetchAndKeep = async (...call) => {
  const response = await fetch(...call);
  const keep = new TransformStream({
    transform(chunk, controller) {
      raw.push(Buffer.from(chunk));
      if (++seen % 50 === 0) process.stdout.write(`${JSON.stringify({ seen })}\n`);
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(keep), response);
};

const asked = { id: "question", role: "user", parts: [{ type: "text", text: "What's the weather in Paris?" }] };
const transport = new DefaultChatTransport({ api, fetch: fetchAndKeep });
let message = null;
let problem = null;
try {
  const stream = await transport.sendMessages({ chatId: id, messages: [asked], trigger: "submit-message" });
  for await (const state of readUIMessageStream({ stream, onError: (error) => (problem = String(error)) })) message = state;
} catch (error) {
  problem = String(error);
}
process.stdout.write(`${JSON.stringify({ raw: Buffer.concat(raw).toString("base64"), asked, message, problem })}\n`);
