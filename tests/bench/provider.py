"""The provider that stands behind the proxy while that is measured, as a process of its own.

`python -m tests.bench.provider PORT`: a POST is answered with a stream of TOKENS deltas of Chat Completions, PACE of
them a second, or of as many as `max_tokens` says, without a pause; on any path, also on one that is not published.
"""

import asyncio
import sys
import time
from typing import Final

import orjson
from aiohttp import web

from tests.bench.chat_server import PACE, TOKENS

HEAD: Final = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}


def chunk(text: str | None) -> bytes:
    """One delta; None: the end."""
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop" if text is None else None}
    return b"data: " + orjson.dumps({**HEAD, "choices": [choice]}) + b"\n\n"


async def answer(request: web.Request) -> web.StreamResponse:
    """Stream an answer."""
    most = (await request.json()).get("max_tokens")
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    began = time.monotonic()
    for number in range(most or TOKENS):
        if most is None:
            await asyncio.sleep(max(0.0, began + number / PACE - time.monotonic()))
        await response.write(chunk(f" word{number}"))
    await response.write(chunk(None) + b"data: [DONE]\n\n")
    await response.write_eof()
    return response


if __name__ == "__main__":
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
