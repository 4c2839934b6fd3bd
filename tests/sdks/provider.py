"""A model's server on loopback, for programs that run inside an environment with some SDK: it plays scripted answers.

Before it answers, it refuses what a real one refuses (`provider_rules`), with a status of 400.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from provider_rules import refusal

Fields = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """A JSON value, or bytes of Server-Sent Events; `broken`: the connection breaks behind them."""

    content: Any
    status: int = 200
    broken: bool = False


Answer = Callable[[str, Fields], Reply]  # path and body of a request -> what is answered


@contextmanager
def provider(answer: Answer) -> Iterator[str]:
    """A server that lives so long -> its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # as http.server wants it
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            problem = refusal(self.path, body)
            if problem is None:
                self._say(answer(self.path, body))
            else:
                self._say(Reply({"error": {"message": problem}}, status=400))

        def _say(self, reply: Reply) -> None:
            streamed = isinstance(reply.content, bytes)
            body = reply.content if streamed else json.dumps(reply.content).encode()
            self.send_response(reply.status)
            self.send_header("content-type", "text/event-stream" if streamed else "application/json")
            self.send_header("content-length", str(len(body) + reply.broken))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = self.close_connection or reply.broken

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.disable_nagle_algorithm = True  # type: ignore[attr-defined]
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


GOING_ON = {
    "/responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Going on.", "annotations": []}],
            }
        ],
    },
    "/chat/completions": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Going on."}}],
    },
    "/messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Going on."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    },
}


def goes_on(path: str, _: Fields) -> Reply:
    """The answer with which every conversation goes on."""
    return next(Reply(answer) for end, answer in GOING_ON.items() if path.partition("?")[0].endswith(end))
