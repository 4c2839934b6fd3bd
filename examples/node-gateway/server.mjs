// A chat server whose streams are published on the way to their client, as one of the AI SDK's would be.
//
// With the SDK, `streamText({ … }).toUIMessageStreamResponse()` makes the response; here the stream is read from a
// file, so that the example runs without a model and without a dependency. It prints its port.

import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { Readable } from 'node:stream'

import { tee } from './publish.mjs'

const recording = await readFile(process.argv[2] ?? new URL('../weather.sse', import.meta.url), 'utf8')

function streamResponse() {
  const chunks = recording.split(/(?<=\n\n)/)
  const body = new ReadableStream({
    async pull(controller) {
      const chunk = chunks.shift()
      if (chunk === undefined) return controller.close()
      await new Promise((resolve) => setTimeout(resolve, 5))
      controller.enqueue(new TextEncoder().encode(chunk))
    },
  })
  return new Response(body, {
    headers: { 'Content-Type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' },
  })
}

const server = createServer((request, answer) => {
  const threadId = new URL(request.url, 'http://localhost').searchParams.get('chat') ?? 'chat-1'
  const run = { threadId, runId: crypto.randomUUID(), facts: { agent_name: 'Weather' } }
  const response = tee(streamResponse(), run)
  answer.writeHead(response.status, Object.fromEntries(response.headers))
  Readable.fromWeb(response.body).pipe(answer)
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
