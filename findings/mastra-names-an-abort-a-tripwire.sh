#!/bin/sh
# @mastra/core 1.71: where a program aborts a run, the last chunk of `fullStream` is a `finish` whose reason is
# `tripwire`, behind an empty `abort`; the promise `finishReason` of the same run says `aborted`.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @mastra/core@1.71.0 node@22.23.3
cat >program.mjs <<'PROGRAM'
import assert from "node:assert";
import { Agent } from "@mastra/core/agent";

const aborted = new AbortController();
const parts = [{ type: "text-start", id: "t" }, ...["One ", "two ", "three "].map((delta) => ({ type: "text-delta", id: "t", delta }))];
const model = {
  specificationVersion: "v2", provider: "scripted", modelId: "scripted", supportedUrls: {},
  async doStream({ abortSignal }) {
    const stream = new ReadableStream({
      async start(to) {
        for (const part of parts) {
          await new Promise((done) => setTimeout(done, 30));
          if (abortSignal.aborted) return to.error(new DOMException("aborted", "AbortError"));
          to.enqueue(part);
        }
      },
    });
    return { stream };
  },
};
const agent = new Agent({ id: "a", name: "a", instructions: "Count.", model });
const run = await agent.stream("Count", { abortSignal: aborted.signal });
const seen = [];
for await (const chunk of run.fullStream) {
  seen.push(chunk);
  if (chunk.type === "text-delta") aborted.abort();
}
const found = [seen.at(-2).type, seen.at(-1).type, seen.at(-1).payload.stepResult.reason, await run.finishReason];
console.log("@mastra/core 1.71.0, an aborted run: its last chunks, the reason of the last, `finishReason`:", found);
assert.deepEqual(found, ["abort", "finish", "tripwire", "aborted"]);
process.exit(0);
PROGRAM
node_modules/.bin/node program.mjs
