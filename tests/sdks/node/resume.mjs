// Runs beside the installed SDK: node resume.mjs PACKAGE URL CHAT_ID, a page that is opened while its chat is being
// answered, as `useChat({ resume: true })` does it: the SDK's own chat asks for the stream of the answer. Prints a line
// {"seen": N} for each state of the answer, then {messages, statuses, problem: null | text}.

const [packageName, api, id] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport } = await import(packageName);

const statuses = [];
let problem = null;
let seen = 0;

class State {
  error = undefined;
  messages = [{ id: "question", role: "user", parts: [{ type: "text", text: "Tell me something." }] }];
  #status = "ready";
  get status() {
    return this.#status;
  }
  set status(status) {
    this.#status = status;
    if (statuses.at(-1) !== status) statuses.push(status);
  }
  pushMessage = (message) => {
    this.messages = [...this.messages, this.snapshot(message)];
    this.#told();
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = this.messages.with(index, this.snapshot(message));
    this.#told();
  };
  snapshot = (thing) => structuredClone(thing);
  #told() {
    process.stdout.write(`${JSON.stringify({ seen: ++seen })}\n`);
  }
}

class Chat extends AbstractChat {
  constructor(init) {
    super({ ...init, state: new State() });
  }
}

const transport = new DefaultChatTransport({
  prepareReconnectToStreamRequest: ({ id }) => ({ api: `${api}/v1/threads/${id}/live?dialect=vercel-ai` }),
});
const chat = new Chat({ id, transport, onError: (error) => (problem = String(error)) });
await chat.resumeStream();
process.stdout.write(`${JSON.stringify({ messages: chat.messages, statuses, problem })}\n`);
