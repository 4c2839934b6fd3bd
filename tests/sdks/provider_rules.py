"""What the servers behind the SDKs refuse: the rules for a conversation that no type tells."""

import re
from collections.abc import Iterator
from typing import Any

Fields = dict[str, Any]
NAME = re.compile(r"[a-zA-Z0-9_-]+")


def refusal(path: str, body: Fields) -> str | None:
    """What a server says against a request, by the path of its endpoint; None where it answers."""
    (rules,) = [rules for end, rules in RULES.items() if path.partition("?")[0].endswith(end)]
    return next(rules(body), None)


def of_responses(body: Fields) -> Iterator[str]:
    """Each call has its output behind it, each output its call before it; something follows a thought."""
    items, called, answered = body["input"], [], []
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        if kind.endswith("_output"):
            answered.append(item["call_id"])
            if answered.count(item["call_id"]) > called.count(item["call_id"]):
                yield f"input[{place}]: no tool call found for the output with call_id {item['call_id']}"
        elif kind.endswith("_call") and "call_id" in item:
            called.append(item["call_id"])
            if not item["call_id"]:
                yield f"input[{place}].call_id: empty string"
        if kind == "function_call" and not NAME.fullmatch(item["name"]):
            yield f"input[{place}].name: {item['name']!r} is no name of a function"
        if kind == "reasoning" and (place + 1 == len(items) or items[place + 1].get("role") == "user"):
            yield f"input[{place}]: a reasoning item without the item that it was followed by"
        if kind == "message" and item["content"] == []:
            yield f"input[{place}].content: empty"
    if sorted(called) != sorted(answered):
        yield f"no tool output found for some call of {called}, outputs are {answered}"


def of_chat(body: Fields) -> Iterator[str]:
    """The results of an assistant's calls stand right behind it, one each."""
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"messages[{place}]: a tool message must be a response to a preceding message with tool_calls"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"messages[{place}]: these tool_call_ids did not have response messages: {waiting}"
        if message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            waiting = [call["id"] for call in calls]
            for call in calls:
                named = call.get("function") or call["custom"]
                if not call["id"] or not NAME.fullmatch(named["name"]):
                    yield f"messages[{place}].tool_calls: {call!r}"
            if message.get("content") is None and not calls and not message.get("refusal"):
                yield f"messages[{place}].content: expected a string, got null"
    if waiting:
        yield f"these tool_call_ids did not have response messages: {waiting}"


def of_messages(body: Fields) -> Iterator[str]:
    """User and assistant alternate; each tool_use has its own id, and its result first thing in the next message."""
    calls: list[str] = []
    called: list[str] = []
    said = [message for message in body["messages"] if message["role"] != "system"]  # which may stand anywhere
    for place, message in enumerate(said):
        if message["role"] != ("assistant" if place % 2 else "user"):
            yield f"messages.{place}: roles must alternate, a user's is the first"
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            yield f"messages.{place}: must have non-empty content"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user":
            if sorted(results) != sorted(calls):
                yield f"messages.{place}: tool_use ids {calls} and the tool_result blocks after them, {results}, differ"
            if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
                yield f"messages.{place}: tool_result blocks come first"
            calls = []
        else:
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            called += calls
            if len(set(called)) < len(called):
                yield f"messages.{place}: tool_use ids must be unique"
            yield from _own_tools(place, blocks)
        for block in blocks:
            yield from _block(place, block)
    if calls:
        yield f"tool_use ids were found without tool_result blocks: {calls}"


def _block(place: int, block: Fields) -> Iterator[str]:
    kind = block["type"]
    if kind == "text" and not block["text"]:
        yield f"messages.{place}: text content blocks must be non-empty"
    if kind in ("tool_use", "server_tool_use") and not isinstance(block["input"], dict):
        yield f"messages.{place}: input should be a valid dictionary"
    identity = block.get("id") if kind == "tool_use" else block.get("tool_use_id")
    if identity is not None and not NAME.fullmatch(identity):
        yield f"messages.{place}: id {identity!r} should match '^[a-zA-Z0-9_-]+$'"
    if kind == "tool_use" and not NAME.fullmatch(block["name"]):
        yield f"messages.{place}: {block['name']!r} is no name of a tool"
    if kind == "thinking" and not block["signature"]:
        yield f"messages.{place}: a thought without its signature"


def of_gemini(body: Fields) -> Iterator[str]:
    """As many responses of functions stand behind a turn of the model as it has calls."""
    calls = 0
    for place, content in enumerate(body["contents"]):
        answered = sum("functionResponse" in part for part in content["parts"])
        if content["role"] == "user" and answered != calls:
            yield f"contents[{place}]: {answered} function responses for {calls} function calls"
        calls = sum("functionCall" in part for part in content["parts"])


def _own_tools(place: int, blocks: list[Fields]) -> Iterator[str]:
    used = [block["id"] for block in blocks if block["type"] in ("server_tool_use", "mcp_tool_use")]
    told = [block["tool_use_id"] for block in blocks if block["type"].endswith("_tool_result")]
    if not set(told) <= set(used):
        yield f"messages.{place}: results {told} of server tools that were not used: {used}"


RULES = {
    "/responses": of_responses,
    "/chat/completions": of_chat,
    "/messages": of_messages,
    ":streamGenerateContent": of_gemini,
    ":generateContent": of_gemini,
}
