"""Events of Chat Completions, as tests write them."""

from typing import Any

from tests.support.assembled import Assembled, assembled

Fields = dict[str, Any]


def chunk(delta: Fields | None = None, finish: str | None = None, index: int = 0, **more: Any) -> Fields:
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    identity = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m"}
    return {**identity, "choices": [choice], **more}


def request(*messages: Fields, **body: Any) -> Fields:
    return {"object": "turnmill.request", "request": {"model": "m", "messages": list(messages), **body}}


def calls(*fragments: Fields) -> Fields:
    return chunk({"tool_calls": list(fragments)})


def fragment(text: str = "", **more: Any) -> Fields:
    function = {"arguments": text, **({"name": more.pop("name")} if "name" in more else {})}
    return {"function": function, **more}


def run(*events: Fields, **rest: Any) -> Assembled:
    return assembled("openai-chat", list(events), **rest)


def status(got: Assembled) -> str:
    return str(got.agent_turns[-1]["completion_status"])


USER: Fields = {"role": "user", "content": "Weather?"}
DONE: Fields = {"event": None, "data": "[DONE]"}
