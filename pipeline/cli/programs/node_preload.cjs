// Loaded into the Node programs of `turnmill run`: their `fetch` sends calls of models through its proxy, and no others.
"use strict";

const proxy = process.env.TURNMILL_RUN_PROXY;
const hosts = new RegExp(process.env.TURNMILL_RUN_HOSTS || "$^");
const paths = /\/(?:chat\/completions|v1\/(?:messages|responses))\/?$/; // of calls to hosts that nobody has named
const direct = globalThis.fetch;

function isCall(url, method) {
  return (
    method === "POST" &&
    /^https?:$/.test(url.protocol) &&
    !url.username &&
    !url.href.startsWith(proxy) &&
    !url.pathname.startsWith("/proxy/") && // a gateway's proxy publishes by itself
    (hosts.test(url.host) || paths.test(url.pathname))
  );
}

async function throughProxy(input, init) {
  const isRequest = typeof input === "object" && input !== null && "url" in input;
  let url;
  try {
    url = new URL(isRequest ? input.url : input);
  } catch {
    return direct(input, init);
  }
  const method = String(init?.method ?? (isRequest ? input.method : "GET")).toUpperCase();
  if (init?.dispatcher || !isCall(url, method)) return direct(input, init);
  const target = `${proxy}/${url.protocol.slice(0, -1)}/${url.host}${url.pathname}${url.search}`;
  const again = isRequest ? input.clone() : input;
  let response;
  try {
    response = await direct(isRequest ? new Request(target, input) : target, init);
  } catch (error) {
    if (error?.cause?.code !== "ECONNREFUSED") throw error;
    return direct(again, init); // the proxy ended with the program that it was for
  }
  return Object.defineProperty(response, "url", { value: url.href });
}

if (proxy && direct) globalThis.fetch = function fetch(input, init) { return throughProxy(input, init); };
