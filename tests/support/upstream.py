"""A provider of models on loopback that plays what a test tells it, byte by byte, and keeps what it was sent."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

SSE = "text/event-stream"


@dataclass
class Asked:
    """One request, as its bytes were. `gone`: the connection was closed before the answer was over."""

    head: bytes
    body: bytes
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def line(self) -> str:
        return self.head.partition(b"\r\n")[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        pairs = (line.partition(b":") for line in self.head.split(b"\r\n")[1:] if line)
        return {name.decode().lower(): value.strip().decode() for name, _, value in pairs}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Answering:
    """How a play answers one request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(
        self, status: int = 200, kind: str = "application/json", *, size: int | None = None, **more: str
    ) -> None:
        """`size` None: the body is chunked."""
        framing = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
        rest = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in more.items())
        await self.send(f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{framing}\r\n{rest}\r\n".encode())

    async def chunk(self, data: bytes) -> None:
        """One chunk; an empty one ends the body."""
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def whole(self, value: Any, status: int = 200, **more: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        await self.head(status, size=len(data), **more)
        await self.send(data)

    async def stream(self, *events: Any, done: bool = False) -> None:
        """Server-Sent Events, each a chunk."""
        await self.head(kind=SSE)
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            await self.chunk(f"{name}data: {json.dumps(event)}\n\n".encode())
        if done:
            await self.chunk(b"data: [DONE]\n\n")
        await self.chunk(b"")

    def reset(self) -> None:
        """Break the connection."""
        self._writer.transport.abort()


Play = Callable[[Asked, Answering], Awaitable[None]]


@dataclass
class Upstream:
    """`url`: where it is. `asked`: the requests so far."""

    url: str
    asked: list[Asked] = field(default_factory=list)


@asynccontextmanager
async def playing(play: Play) -> AsyncIterator[Upstream]:
    """An upstream that lives so long."""
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                asked = Asked(head, b"")
                upstream.asked.append(asked)
                asked.body = await _body(reader, asked.headers)
                watching = asyncio.create_task(_watch(reader, asked))
                try:
                    await play(asked, Answering(writer))
                finally:
                    watching.cancel()
                if writer.is_closing():
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
    upstream = Upstream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield upstream
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") == "chunked":
        found = b""
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            found += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return found
    return await reader.readexactly(int(headers.get("content-length", 0)))


async def _watch(reader: asyncio.StreamReader, asked: Asked) -> None:
    """Notice that the client goes; it sends nothing before its answer is over."""
    with suppress(ConnectionError):
        while not reader.at_eof():
            await asyncio.sleep(0.01)
    asked.gone.set()


def chat_chunks(*words: str, model: str = "gpt-5") -> list[dict[str, Any]]:
    """An answer as Chat Completions streams it."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    said = [{**head, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]} for word in words]
    return [*said, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


def chat_answer(text: str) -> dict[str, Any]:
    """The same, whole."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5",
        "choices": [choice],
        "usage": usage,
    }


def message_events(text: str) -> list[dict[str, Any]]:
    """An answer as the Messages API streams it."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def response_events(text: str) -> list[dict[str, Any]]:
    """An answer as the Responses API streams it."""
    content = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [content]}
    head: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "output": []}
    head |= {"status": "in_progress", "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    hollow = {**item, "status": "in_progress", "content": []}
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events = [
        {"type": "response.created", "response": head},
        {"type": "response.output_item.added", "output_index": 0, "item": hollow},
        {"type": "response.content_part.added", **where, "part": {**content, "text": ""}},
        {"type": "response.output_text.delta", **where, "delta": text, "logprobs": []},
        {"type": "response.output_text.done", **where, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **where, "part": content},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**head, "status": "completed", "output": [item], "usage": usage}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def gemini_events(text: str) -> list[dict[str, Any]]:
    """An answer as the Gemini API streams it."""
    content = {"role": "model", "parts": [{"text": text}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
    candidate = {"index": 0, "content": content, "finishReason": "STOP"}
    return [{"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x", "responseId": "r1"}]


def chat_call(call_id: str, name: str, arguments: str) -> list[dict[str, Any]]:
    """A call of a tool as Chat Completions streams it."""
    (head, *_, end) = chat_chunks("")
    function = {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    said = {**head, "choices": [{"index": 0, "delta": {"tool_calls": [function]}, "finish_reason": None}]}
    return [said, {**end, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]


def message_call(call_id: str, name: str, arguments: str) -> list[dict[str, Any]]:
    """The same as the Messages API streams it."""
    start, _, _, stop, end, over = message_events("")
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return [
        start,
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        stop,
        {**end, "delta": {"stop_reason": "tool_use", "stop_sequence": None}},
        over,
    ]


def response_call(call_id: str, name: str, arguments: str) -> list[dict[str, Any]]:
    """The same as the Responses API streams it."""
    created, *_, completed = response_events("")
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}
    item |= {"status": "completed"}
    where = {"item_id": item["id"], "output_index": 0}
    events = [
        created,
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", **where, "delta": arguments},
        {"type": "response.function_call_arguments.done", **where, "arguments": arguments},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {**completed, "response": {**completed["response"], "id": f"resp_{call_id}", "output": [item]}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]
