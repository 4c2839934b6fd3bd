// Publish an agent's stream through the gateway: `fetch` and nothing else, no Kafka client.
//
//   node publish.mjs chat-42 < stream.sse
//
// TURNMILL_GATEWAY is the gateway's address, TURNMILL_TOKEN a token with the scope `publish`. Node 18 or newer.

import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'

const gateway = process.env.TURNMILL_GATEWAY ?? 'http://127.0.0.1:8080'
const token = process.env.TURNMILL_TOKEN

/**
 * Send a run's stream while it comes. `stream`: a ReadableStream of bytes (SSE, or JSON lines); `facts`: agent_id,
 * agent_name, model_name, provider_name, request, …. Resolves to the gateway's report when all of it is safe.
 */
export async function publishRun({ threadId, runId, stream, dialect = 'vercel-ai', facts = {} }) {
  const { request, ...rest } = facts
  const query = new URLSearchParams({ dialect, ...rest, ...(request && { request: JSON.stringify(request) }) })
  const path = `/v1/threads/${encodeURIComponent(threadId)}/runs/${encodeURIComponent(runId)}/stream`
  const answer = await fetch(`${gateway}${path}?${query}`, {
    method: 'POST',
    headers: { 'Content-Type': 'text/event-stream', ...(token && { Authorization: `Bearer ${token}` }) },
    body: stream,
    duplex: 'half', // the body is sent while it is made
  })
  const report = await answer.json()
  if (!answer.ok) throw new Error(`${report.title}: ${report.detail}`)
  return report
}

/**
 * Give a response to its client, unchanged, and publish it on the way:
 *
 *   const response = result.toUIMessageStreamResponse()
 *   return tee(response, { threadId: chatId, runId: crypto.randomUUID(), facts: { agent_name: 'Weather' } })
 *
 * What can't be published is told to `onError`, and does not touch the client's stream.
 */
export function tee(response, run, onError = (error) => console.error(`turnmill: ${error.message}`)) {
  const [toClient, toGateway] = response.body.tee()
  publishRun({ ...run, stream: toGateway }).catch((error) => {
    toGateway.cancel().catch(() => {})
    onError(error)
  })
  return new Response(toClient, { status: response.status, headers: response.headers })
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [threadId, runId = crypto.randomUUID()] = process.argv.slice(2)
  if (!threadId) {
    console.error('usage: node publish.mjs THREAD [RUN] < stream.sse')
    process.exit(2)
  }
  const report = await publishRun({ threadId, runId, stream: Readable.toWeb(process.stdin) })
  console.log(JSON.stringify(report))
}
