// The gateway: JSON and server-sent events, with the token where one is needed.

const KEY = "turnmill.token";
let onRefused = () => {};

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

/** `refused(problem)` is called whenever a request is answered with 401. */
export function whenRefused(refused) {
  onRefused = refused;
}

/**
 * What the gateway says when something is not as asked (RFC 9457). `status` is 0 where it does not answer at all;
 * `tenants`: those that have the thread, where it can't tell whose is meant. `signIn`: providers by which people sign in,
 * with their titles.
 */
export class Problem extends Error {
  constructor(status, title, detail, tenants = null, signIn = null) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.tenants = tenants;
    this.signIn = signIn;
  }
}

async function request(path, options = {}, mine = token.get()) {
  const headers = { ...options.headers };
  if (mine) headers.Authorization = `Bearer ${mine}`;
  if (options.method) headers["X-Turnmill"] = "1"; // what a page of another origin can't send with a session's cookie
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: mine ? "omit" : "same-origin", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The gateway does not answer", "Is it still running? This page tries again by itself.");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  const problem = new Problem(answer.status, said.title ?? `Status ${answer.status}`, said.detail, said.tenants, said.sign_in);
  if (answer.status === 401) onRefused(problem, mine);
  throw problem;
}

/** A path with a query; parameters that are null or undefined are left out, each of a list is repeated. */
export function url(path, query = {}) {
  const wanted = Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one])).filter(([, one]) => one !== null && one !== undefined);
  const text = new URLSearchParams(wanted).toString();
  return text ? `${path}?${text}` : path;
}

/**
 * The address of a thread's view; `tenant` says whose it is, where several have its id. `more`: `live`, `branch` (a run),
 * `turn`.
 */
export function threadAddress(id, tenant, more = {}) {
  return `#${url(`/threads/${id}`, { tenant, ...more })}`;
}

/** The address of the list of threads that are like that; empty members are left out. */
export function threadsAddress(like) {
  return `#${url("/threads", Object.fromEntries(Object.entries(like).filter(([, value]) => value)))}`;
}

export async function json(path, query, signal) {
  return (await request(url(path, query), { signal })).json();
}

/** JSON for the bearer of another token. */
export async function bearing(secret, path, signal) {
  return (await request(path, { signal }, secret)).json();
}

/** Sends a JSON body, or none; returns the JSON of the answer, null where it has none. */
export async function send(method, path, body, signal, headers = {}) {
  const options = body === null ? { headers } : { headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await request(path, { method, signal, ...options });
  return answer.status === 204 ? null : answer.json();
}

export async function post(path, signal) {
  await request(path, { method: "POST", signal });
}

export async function blob(path, query, signal) {
  return (await request(url(path, query), { signal })).blob();
}

/**
 * Server-sent events of one request: `take({event, data, id})` for each, until the stream ends.
 * (EventSource can't send a token.)
 */
export async function events(path, query, take, signal, headers = {}, heard = () => {}) {
  const answer = await request(url(path, query), { signal, headers: { Accept: "text/event-stream", ...headers } });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    heard();
    for (const block of blocks) {
      const message = { event: "message", data: [], id: null };
      for (const line of block.split(/\r?\n/)) {
        const [, name, text] = /^([a-z]*):? ?(.*)$/s.exec(line) ?? [];
        if (name === "data") message.data.push(text);
        else if (name === "event" || name === "id") message[name] = text;
      }
      if (message.data.length) take({ ...message, data: message.data.join("\n") });
    }
  }
}

/** Keeps a stream open: opens it again after it broke, a little later each time. `state(text)`: live, connecting, lost. */
export async function follow(path, query, take, signal, state = () => {}) {
  let wait = 500;
  let last = null; // id of the newest event: the stream goes on behind it
  while (!signal.aborted) {
    try {
      state("connecting");
      await events(path, query, (message) => {
        wait = 500;
        last = message.id ?? last;
        take(message);
      }, signal, last === null ? {} : { "Last-Event-ID": last }, () => state("live"));
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      state("lost", error);
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return;
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 8000);
  }
}
