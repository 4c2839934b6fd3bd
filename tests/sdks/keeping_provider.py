"""A scripted provider that keeps conversations, as Anthropic and Google document it; it does what the user says.

Of Anthropic's API, it knows threads. "weather?" calls a tool, "refuse" is refused, "fall back" is answered by another
model, "pause" is answered in two messages, and "forget this" in a thread that it then forgets. Of Google's API, "count"
is answered in two calls: the first says so, or breaks off ("broken").
"""

import itertools
import json
from typing import Any

from tests.support.upstream import Answering, Asked

Fields = dict[str, Any]
LOST: Fields = {"error_code": "thread_not_found"}


class KeepingProvider:
    """`play` is a Play. `asked`: the bodies of the requests to models so far."""

    def __init__(self) -> None:
        self.asked: list[Fields] = []
        self._numbers = itertools.count(1)
        self._threads: dict[str, list[Fields]] = {}  # by the id of the newest message

    async def play(self, asked: Asked, answer: Answering) -> None:
        path = asked.line.split()[1].partition("?")[0]
        if path.endswith("/v1/messages"):
            self.asked.append(asked.json)
            await self._message(asked.json, answer)
        elif path.endswith((":streamGenerateContent", ":generateContent")):
            self.asked.append(asked.json)
            await self._google(asked.json, answer, streams=path.endswith(":streamGenerateContent"))
        elif asked.line.startswith("HEAD"):
            await answer.head(size=0)
        else:
            await answer.whole({})

    async def _message(self, body: Fields, answer: Answering) -> None:
        thread, messages = body.get("thread") or {}, body["messages"]
        if thread.get("type") == "continue":
            assert not body.keys() & {"system", "tools"}, "the server takes them from the thread"
            kept = self._threads.pop(thread["previous_message_id"], None)
            if kept is None:
                error = {"type": "not_found_error", "message": "no such thread", "details": LOST}
                await answer.whole({"type": "error", "error": error}, 404)
                return
            messages = [*kept, *messages]
        messages = [message for message in messages if message["role"] != "system"]
        name, words = f"msg_{next(self._numbers)}", _words(messages[-1])
        message = self._answered(name, words, messages)
        if thread and not {"forget this", "refuse", "fall back"} & {words}:
            self._threads[name] = [*messages, {"role": "assistant", "content": message["content"]}]
        if body.get("stream"):
            await answer.stream(*_events(message))
        else:
            await answer.whole(message)

    def _answered(self, name: str, words: str, messages: list[Fields]) -> Fields:
        usage: Fields = {"input_tokens": 10, "output_tokens": 5}
        content: list[Fields] = [{"type": "text", "text": f"You said: {words}"}]
        reason = "end_turn"
        if messages[-1]["role"] == "assistant":
            content[0]["text"] = " a time."
        elif words.endswith("weather?"):
            content = [{"type": "tool_use", "id": f"toolu_{name}", "name": "weather", "input": {"city": "Paris"}}]
            reason = "tool_use"
        elif words == "pause":
            content[0]["text"], reason = "Once upon", "pause_turn"
        elif words.startswith("[SUGGESTION MODE:"):
            content[0]["text"] = "run the tests"
        elif words == "refuse":
            content[0]["text"], reason = "No.", "refusal"
        elif words == "fall back":
            usage["iterations"] = [{"type": "fallback_message", "model": "claude-y", **usage}]
        about = {"id": name, "type": "message", "role": "assistant", "model": "claude-x", "stop_sequence": None}
        return {**about, "content": content, "stop_reason": reason, "usage": usage}

    async def _google(self, body: Fields, answer: Answering, *, streams: bool) -> None:
        said = body["contents"]
        first, words = said[0]["parts"][0]["text"], said[-1]["parts"][0]["text"]
        if "count" not in words:
            pieces = [_piece("Bye.", 20, finish="STOP")]
        elif "continuationToken" in body:
            pieces = [_piece("three.", 5, finish="STOP")]
        elif first.startswith("broken"):
            pieces = [_piece("One, ", 5), _piece("two, ", 10, token="dG9r")]
        else:
            pieces = [_piece("One, ", 5), _piece("two, ", 10, token="dG9r", finish="CONTINUATION")]
        if not streams:
            texts = [piece["candidates"][0]["content"]["parts"][0]["text"] for piece in pieces]
            pieces[-1]["candidates"][0]["content"]["parts"][0]["text"] = "".join(texts)
            await answer.whole(pieces[-1])
        elif "finishReason" in pieces[-1]["candidates"][0]:
            await answer.stream(*pieces)
        else:
            await answer.head(kind="text/event-stream")
            for piece in pieces:
                await answer.chunk(f"data: {json.dumps(piece)}\n\n".encode())
            answer.reset()


def _words(message: Fields) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    texts = [block.get("text") or block.get("content") or "" for block in content]
    return "".join(text if isinstance(text, str) else _words({"content": text}) for text in texts)


def _events(message: Fields) -> list[Fields]:
    start = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
    events: list[Fields] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        text = block["type"] == "text"
        begun = {**block, "text": ""} if text else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if text
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        events += [
            {"type": "content_block_start", "index": index, "content_block": begun},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return [*events, {"type": "message_delta", "delta": ended, "usage": message["usage"]}, {"type": "message_stop"}]


def _piece(words: str, output: int, *, token: str | None = None, finish: str | None = None) -> Fields:
    candidate: Fields = {"index": 0, "content": {"role": "model", "parts": [{"text": words}]}}
    candidate |= {"continuationToken": token} if token else {}
    candidate |= {"finishReason": finish} if finish else {}
    usage = {"promptTokenCount": 20, "candidatesTokenCount": output, "totalTokenCount": 20 + output}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-4", "responseId": "r"}
