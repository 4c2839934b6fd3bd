"""A model's server on loopback, for programs that run inside an environment with some SDK: it plays scripted answers.

Before it answers, it refuses what a real one refuses (`provider_rules`), with a status of 400.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from provider_rules import refusal

Fields = dict[str, Any]
Answer = Callable[[str, Fields], Any]  # path and body of a request -> a JSON value, or bytes of Server-Sent Events


@contextmanager
def provider(answer: Answer) -> Iterator[str]:
    """A server that lives so long -> its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # as http.server wants it
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            problem = refusal(self.path, body)
            if problem is not None:
                self._say(400, "application/json", json.dumps({"error": {"message": problem}}).encode())
                return
            found = answer(self.path, body)
            if isinstance(found, bytes):
                self._say(200, "text/event-stream", found)
            else:
                self._say(200, "application/json", json.dumps(found).encode())

        def _say(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

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


def goes_on(path: str, _: Fields) -> Any:
    """The answer with which every conversation goes on."""
    return next(answer for end, answer in GOING_ON.items() if path.partition("?")[0].endswith(end))
