"""Writes tests/corpus/wires/openai-realtime: a scripted server's WebSocket, read by OpenAI's own client.

It runs in an environment with openai 3.57.0 and websockets: `python -m tests.sdks.realtime_corpus`. The truth is what
the client's own types say at the end of each response (`response.done`), and of the items that it has sent.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from openai import AsyncOpenAI
from websockets.asyncio.server import ServerConnection, serve

Fields = dict[str, Any]
FOLDER: Final = Path(__file__).parents[1] / "corpus" / "wires" / "openai-realtime"
CLOSE: Final = "close"  # in a script: the server goes away
HIGH: Final = [("text", ["High ", "at noon."])]
PORTS: Final = [("call", "c1", ['{"port": "Br', 'est"}']), ("call", "c2", ['{"port": "Calais"}'])]

# Of each case, what the client sends, and with which items and status the server answers each `response.create`.
CASES: Final[dict[str, list[tuple[list[Any], list[Any], str, Fields]]]] = {
    "tools": [(["Tides?"], PORTS[:1], "completed", {}), ([("c1", "7 m")], HIGH, "completed", {})],
    "parallel": [(["Tides?"], PORTS, "completed", {}), ([("c2", "2 m"), ("c1", "7 m")], HIGH, "completed", {})],
    "text-and-call": [
        (["Tides?"], [("text", ["Let me ", "look."]), *PORTS[:1]], "completed", {}),
        ([("c1", "7 m")], HIGH, "completed", {}),
    ],
    "three-rounds": [
        (["Tides?"], PORTS[:1], "completed", {}),
        ([("c1", "7 m")], PORTS[1:], "completed", {}),
        ([("c2", "")], HIGH, "completed", {}),
    ],
    "two-turns": [(["Tides?"], HIGH, "completed", {}), (["And low?"], [("text", ["At six."])], "completed", {})],
    "unicode": [(["Füchse 🦊?"], [("text", ["Zwölf é", " 🦊\u2028", '"\\n"'])], "completed", {})],
    "spoken": [(["Tides?"], [("audio", ["High ", "at noon."])], "completed", {})],
    "spoken-and-called": [
        (["Tides?"], [("audio", ["Let me look."]), *PORTS[:1]], "completed", {}),
        ([("c1", "7 m")], [("audio", ["High."])], "completed", {}),
    ],
    "empty": [(["Tides?"], [], "completed", {})],
    "no-arguments": [(["Tides?"], [("call", "c1", [])], "completed", {}), ([("c1", "7 m")], HIGH, "completed", {})],
    "filtered": [(["Tides?"], [("text", ["High "])], "incomplete", {"reason": "content_filter"})],
    "cancelled-then-asked": [
        (["Tides?"], [("text", ["High "])], "cancelled", {"reason": "turn_detected"}),
        (["No, low."], [("text", ["At six."])], "completed", {}),
    ],
    "cancelled-call": [(["Tides?"], PORTS[:1], "cancelled", {"reason": "client_cancelled"})],
    "refused": [(["Tides?"], [], "failed", {"error": {"type": "server_error", "code": "rate_limit_exceeded"}})],
    "closed-after-call": [(["Tides?"], PORTS[:1], "completed", {}), ([("c1", "7 m")], HIGH, CLOSE, {})],
    "error-between": [(["Tides?", "error"], HIGH, "completed", {})],
}


class Script:
    """What the server says, in order; `sent` holds its events."""

    def __init__(self, rounds: list[tuple[list[Any], list[Any], str, Fields]]) -> None:
        self.rounds, self.sent, self.number = list(rounds), list[Fields](), 0

    async def serve(self, socket: ServerConnection) -> None:
        session = {"type": "realtime", "object": "realtime.session", "id": "sess_1", "model": "own-realtime"}
        await self.send(socket, {"type": "session.created", "session": session})
        async for message in socket:
            event = json.loads(message)
            if event["type"] == "session.update":
                session |= event["session"]
                await self.send(socket, {"type": "session.updated", "session": dict(session)})
            elif event["type"] == "conversation.item.create":
                self.number += 1
                item = {"id": f"item_u{self.number}", "object": "realtime.item", "status": "completed", **event["item"]}
                told = {"previous_item_id": None, "item": item}
                for kind in ("added", "done"):
                    await self.send(socket, {"type": f"conversation.item.{kind}", **told})
            elif event["type"] == "response.create":
                for each in answer(self.number, *self.rounds.pop(0)[1:]):
                    if each == CLOSE:
                        await socket.close()
                        return
                    await self.send(socket, each)
            elif event["type"] == "input_audio_buffer.commit":
                error = {"type": "invalid_request_error", "code": "input_audio_buffer_commit_empty", "message": "empty"}
                await self.send(socket, {"type": "error", "error": error})

    async def send(self, socket: ServerConnection, event: Fields) -> None:
        event = {"type": event["type"], "event_id": f"event_{len(self.sent) + 1:04}", **event}
        self.sent.append(event)
        await socket.send(json.dumps(event, ensure_ascii=False))


def answer(number: int, items: list[Any], status: str, details: Fields) -> Iterator[Any]:
    """Yield the events of a response."""
    head: Fields = {"object": "realtime.response", "id": f"resp_{number}", "conversation_id": "conv_1"}
    yield {
        "type": "response.created",
        "response": {**head, "status": "in_progress", "output": [], "status_details": None},
    }
    output = list[Fields]()
    for index, item in enumerate(items):
        at = {"response_id": head["id"], "output_index": index}
        identity = {"id": f"item_{number}_{index}", "object": "realtime.item"}
        within = {**at, "item_id": identity["id"], "content_index": 0}
        state = "completed" if status in ("completed", CLOSE) or index < len(items) - 1 else "incomplete"
        if item[0] == "call":
            whole = {**identity, "type": "function_call", "name": "tide", "call_id": item[1]}
            begun = {**whole, "status": "in_progress", "arguments": ""}
            whole |= {"status": state, "arguments": "".join(item[2])}
        else:
            kind, key = ("output_text", "text") if item[0] == "text" else ("output_audio", "transcript")
            begun = {**identity, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
            whole = {**begun, "status": state, "content": [{"type": kind, key: "".join(item[-1])}]}
        yield {"type": "response.output_item.added", **at, "item": begun}
        yield {"type": "conversation.item.added", "previous_item_id": None, "item": begun}
        if item[0] == "call":
            for text in item[2]:
                named = {**at, "item_id": identity["id"], "call_id": item[1]}
                yield {"type": "response.function_call_arguments.delta", **named, "delta": text}
            if state == "completed":
                told = {"name": "tide", "arguments": whole["arguments"]}
                named = {**at, "item_id": identity["id"], "call_id": item[1]}
                yield {"type": "response.function_call_arguments.done", **named, **told}
        else:
            part = {"type": "text" if item[0] == "text" else "audio", key: ""}
            stem = "response.output_text" if item[0] == "text" else "response.output_audio_transcript"
            yield {"type": "response.content_part.added", **within, "part": part}
            for text in item[1]:
                yield {"type": f"{stem}.delta", **within, "delta": text}
                if item[0] == "audio":
                    yield {"type": "response.output_audio.delta", **within, "delta": "AAAA"}
            if status == CLOSE:
                yield CLOSE
                return
            yield {"type": f"{stem}.done", **within, key: "".join(item[1])}
            yield {"type": "response.content_part.done", **within, "part": {**part, key: "".join(item[1])}}
        yield {"type": "response.output_item.done", **at, "item": whole}
        yield {"type": "conversation.item.done", "previous_item_id": None, "item": whole}
        output.append(whole)
    usage = {"total_tokens": 30, "input_tokens": 21, "output_tokens": 9}
    usage |= {"input_token_details": {"text_tokens": 21, "audio_tokens": 0, "cached_tokens": 4}}
    told = {"status": status, "status_details": {"type": status, **details}, "output": output, "usage": usage}
    yield {"type": "response.done", "response": {**head, **told}}


async def read(rounds: list[Any], port: int) -> Fields:
    """Speak to the server with OpenAI's client; return what it ends with."""
    client = AsyncOpenAI(
        api_key="x", base_url=f"http://127.0.0.1:{port}/v1", websocket_base_url=f"ws://127.0.0.1:{port}/v1"
    )
    content, shown, whole = [], "", False
    tokens = {"input": 0, "output": 0}
    async with client.realtime.connect(model="own-realtime") as connection:
        await connection.session.update(session={"type": "realtime", "instructions": "Be short."})
        for number, (said, *_) in enumerate(rounds):
            for item in said:
                if item == "error":
                    await connection.input_audio_buffer.commit()
                elif isinstance(item, str):
                    words: Any = [{"type": "input_text", "text": item}]
                    await connection.conversation.item.create(
                        item={"type": "message", "role": "user", "content": words}
                    )
                    if number:
                        _add(content, "request", ["user-prompt", item])
                else:
                    told: Any = {"type": "function_call_output", "call_id": item[0], "output": item[1]}
                    await connection.conversation.item.create(item=told)
                    _add(content, "request", ["tool-return", *item, "success"])
            await connection.response.create()
            whole, shown = False, ""
            try:
                async for event in connection:
                    if event.type in ("response.output_text.delta", "response.output_audio_transcript.delta"):
                        shown += event.delta
                    if event.type == "response.done":
                        break
                else:
                    break
            except Exception:  # the connection is closed
                break
            response = event.response
            whole = response.status in ("completed", "incomplete")
            if response.usage is not None:
                tokens["input"] += response.usage.input_tokens or 0
                tokens["output"] += response.usage.output_tokens or 0
            for item in response.output or ():  # what was cancelled stays in the conversation, but for calls
                if item.type == "function_call" and whole:
                    arguments = json.loads(item.arguments or "{}")
                    _add(content, "response", ["tool-call", item.name, item.call_id, arguments])
                elif item.type == "message":
                    texts = [piece.text or piece.transcript or "" for piece in item.content]
                    _add(content, "response", ["text", "".join(texts)])
    return {"complete": whole, "content": content, "at_most": None, "tokens": tokens}


def _add(content: list[Any], kind: str, part: list[Any]) -> None:
    if content and content[-1][0] == kind:
        content[-1][1].append(part)
    else:
        content.append([kind, [part]])


async def main() -> None:
    for name, rounds in CASES.items():
        script = Script(rounds)
        async with serve(script.serve, "127.0.0.1", 0) as server:
            truth = await read(rounds, server.sockets[0].getsockname()[1])
        stream = FOLDER / f"{name}.jsonl"
        stream.write_text("".join(json.dumps(event, ensure_ascii=False) + "\n" for event in script.sent))
        truth = {"sdk": "openai 3.57.0", "how": "its types over a scripted server's WebSocket", **truth}
        text = json.dumps(truth, ensure_ascii=False, indent=1)
        stream.with_suffix(".expected.json").write_text(text + "\n")


if __name__ == "__main__":
    asyncio.run(main())
