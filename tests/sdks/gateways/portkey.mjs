// Starts Portkey's server: node portkey.mjs --port=N --headless. It changes the headers of what it has fetched, which
// Node 20 does not allow, so that a copy of the answer is given to it.
const fetched = globalThis.fetch;
globalThis.fetch = async (...asked) => {
  const { body, headers, status, statusText } = await fetched(...asked);
  return new Response(body, { headers: new Headers(headers), status, statusText });
};
await import("@portkey-ai/gateway/build/start-server.js");
