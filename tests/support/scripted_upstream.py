"""A model's provider on loopback that plays cases: streams, whole answers, refusals, and connections that fail.

The case, and a name that keeps its attempts apart, are the first two parts of the path: `/retried/17/v1/responses`.
"""

import gzip
import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar, Final

TEXT: Final = ("It rains ", "in Paris: ", "7 °C 🌧️")
CASES: Final = ("plain", "encoded", "retried", "down", "refused", "stalled", "silent", "reset", "cut")
STALL: Final = 20.0  # seconds: no client of a test waits for so long
LARGE: Final = 100_000_000  # bytes of text


def _chat(texts: tuple[str, ...], *, stream: bool) -> list[Any]:
    if not stream:
        message = {"role": "assistant", "content": "".join(texts)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        return [
            {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        ]
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas = [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None} for text in texts]
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return [{**chunk, "choices": [choice]} for choice in (*deltas, end)]


def _responses(texts: tuple[str, ...], *, stream: bool) -> list[Any]:
    content = [{"type": "output_text", "text": "".join(texts), "annotations": []}]
    item = {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": content}
    response = {
        "id": "resp",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [item],
    }
    if not stream:
        return [response]
    events: list[Any] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
    ]
    part = {"item_id": "msg", "output_index": 0, "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": []}
    events.append({"type": "response.content_part.added", **part, "part": empty})
    events += [{"type": "response.output_text.delta", **part, "delta": text, "logprobs": []} for text in texts]
    events.append({"type": "response.output_text.done", **part, "text": "".join(texts), "logprobs": []})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": response})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _messages(texts: tuple[str, ...], *, stream: bool) -> list[Any]:
    usage = {"input_tokens": 3, "output_tokens": 5}
    message = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None, "usage": usage}
    if not stream:
        return [{**message, "content": [{"type": "text", "text": "".join(texts)}], "stop_reason": "end_turn"}]
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def _gemini(texts: tuple[str, ...], *, stream: bool) -> list[Any]:
    pieces = texts if stream else ("".join(texts),)
    answers: list[Any] = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}], "modelVersion": "m"}
        for text in pieces
    ]
    answers[-1]["candidates"][0]["finishReason"] = "STOP"
    return answers


def _converse(texts: tuple[str, ...], **_: bool) -> list[Any]:
    message = {"role": "assistant", "content": [{"text": "".join(texts)}]}
    usage = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}
    return [{"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}]


def _ollama(texts: tuple[str, ...], **_: bool) -> list[Any]:
    message = {"role": "assistant", "content": "".join(texts)}
    counts = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 5}
    return [{"model": "m", "created_at": "2026-11-01T00:00:00.037000001Z", "message": message, **counts}]


WIRES: Final = {
    "/chat/completions": ("openai-chat", _chat),
    "/responses": ("openai-responses", _responses),
    "/messages": ("anthropic", _messages),
    "enerateContent": ("gemini", _gemini),
    "/converse": ("bedrock", _converse),  # it and the next are asked for whole answers alone
    "/api/chat": ("ollama", _ollama),
}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    attempts: ClassVar[Counter[tuple[str, str]]] = Counter()

    def do_POST(self) -> None:  # as http.server wants it
        body = json.loads(self._body() or b"{}")
        path = self.path.partition("?")[0]
        _, case, name, *_ = path.split("/", 3)
        Handler.attempts[case, name] += 1
        build = next(build for end, (_, build) in WIRES.items() if path.endswith(end))
        stream = bool(body.get("stream")) or ":stream" in path
        if case == "silent":
            time.sleep(STALL)
        elif case == "down" or (case == "retried" and Handler.attempts[case, name] == 1):
            self._whole({"error": {"message": "busy", "type": "x"}}, 500 if case == "down" else 429)
        elif case == "refused":
            self._whole({"error": {"message": f"no such key: {self.headers.get('authorization')}", "type": "x"}}, 401)
        elif case == "large":
            self._whole(build(("x" * LARGE,), stream=False)[0])
        elif stream:
            self._stream([self._sse(event) for event in build(TEXT, stream=True)], case, path)
        else:
            self._whole(build(TEXT, stream=False)[0], case=case)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        found = []
        while size := int(self.rfile.readline(), 16):
            found.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(found)

    def _sse(self, event: Any) -> bytes:
        name = f"event: {event['type']}\n" if "type" in event else ""
        return f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()

    def _whole(self, value: Any, status: int = 200, case: str = "plain") -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("retry-after-ms", "1")
        if case == "encoded":
            body = gzip.compress(body)
            self.send_header("content-encoding", "gzip")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        half = len(body) // 2
        self.wfile.write(body[:half])
        if not self._fails(case):
            self.wfile.write(body[half:])

    def _stream(self, events: list[bytes], case: str, path: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        packed = gzip.compress(b"".join(events) + self._done(path)) if case == "encoded" else b""
        if packed:
            self.send_header("content-encoding", "gzip")
            events = [packed[:50], packed[50:]]
        self.end_headers()
        for number, event in enumerate(events):
            if number == len(events) - 2 and self._fails(case):
                return
            self._chunk(event)
        if not packed and self._done(path):
            self._chunk(self._done(path))
        self.wfile.write(b"0\r\n\r\n")

    def _done(self, path: str) -> bytes:
        return b"data: [DONE]\n\n" if path.endswith("/chat/completions") else b""

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _fails(self, case: str) -> bool:
        """Break off in the middle, where the case is one of those."""
        if case not in ("stalled", "reset", "cut"):
            return False
        self.wfile.flush()
        if case == "stalled":
            time.sleep(STALL)
        if case == "reset":  # what is closed without lingering is reset
            time.sleep(0.05)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        return True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name there
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 100

    def shutdown_request(self, request: Any) -> None:
        """Close without saying so first, which would not let it be reset."""
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client has gone, as some cases want it."""


@contextmanager
def upstream() -> Iterator[str]:
    """A server that lives so long -> its address, without the cases."""
    server = _Server(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
