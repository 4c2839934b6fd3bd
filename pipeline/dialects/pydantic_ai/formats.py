"""Thread document -> Pydantic AI's messages, as ModelMessagesTypeAdapter loads them.

A user turn becomes a request with its prompts; an agent turn its requests and responses. Turns from Pydantic AI are
restored exactly; of other wires, system messages, unknown kinds of parts and sources are left out, as Pydantic AI can't
express them. With `viewing_agent`, a turn of another agent becomes what that agent sees of it: the last answer as a
user prompt of two pieces, the name and the text, without tool calls and thoughts.

Back: histories of Pydantic AI (ModelMessagesTypeAdapter, `result.all_messages()` of 1.20 to 2.68) -> exchanges.
"""

import json
import re
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects.pydantic_ai.export_parts import request_part, response_part, usage
from pipeline.dialects.pydantic_ai.keys import EXACT, PROMPT_AT
from pipeline.dialects.pydantic_ai.messages import message as read
from pipeline.dialects.pydantic_ai.whole import replace
from pipeline.dialects.vercel_ai.keys import META
from topics.json_text import Fields, present

Version = tuple[int, ...]
ALWAYS: Final = (0,)
NEWEST: Final = (2, 68)
RETRIED: Final = (2, 60)  # from then on retries are tool returns and retry feedback; before, retry prompts
FREE_TOOL_KINDS: Final = (2, 60)
SUSPENDED: Final = (2, 20)
INTERRUPTED: Final = (2, 20)  # as the outcome of a tool
REQUEST_KINDS: Final[dict[str, Version]] = {
    "speech": (2, 40),
    "tool-availability-delta": (2, 40),
    "instruction-delta": (2, 60),
    "instruction-baseline": (2, 60),
    "capability-load-delta": NEWEST,
    "model-settings-delta": NEWEST,
    "compaction": NEWEST,
}
RESPONSE_KINDS: Final[dict[str, Version]] = {"compaction": (1, 90), "speech": (2, 40)}
CONTENT_KINDS: Final[dict[str, Version]] = {
    "uploaded-file": (1, 90),
    "text-content": (1, 90),
    "structured-content": NEWEST,
}
CORE_TOOL_KINDS: Final = frozenset({"tool-search", "capability-load"})
DETAILS: Final = frozenset({"type", "loc", "msg", "input"})
ANSWERS: Final = frozenset({"tool-return", "retry-prompt", "retry-feedback"})
CUT_OFF: Final = frozenset({"incomplete", "interrupted"})


def messages(document: Fields, *, for_version: str | None = None, viewing_agent: str | None = None) -> list[Fields]:
    """Return ModelMessages as JSON, for a release of pydantic-ai.

    `for_version`: such as "1.20", "1.107.10"; None: the newest. `viewing_agent`: the agent_id for which the history is
    made. Raises ValueError if `for_version` is not a version.
    """
    out: list[Fields] = []
    before: Fields | None = None  # the preceding user turn
    for turn in document.get("turns", ()):
        if turn.get("turn_type") == "user":
            out.append(_request(turn, turn.get("submitted_at")))
            before = turn
            continue
        if viewing_agent is not None and turn.get("agent_id") != viewing_agent:
            out.extend(_answer_of_other(document, turn))
        else:
            _add_turn(out, turn, before)
        before = None
    release = NEWEST if for_version is None else parse(for_version)
    return out if release >= NEWEST else [_message(message, release) for message in out]


def _add_turn(out: list[Fields], turn: Fields, before: Fields | None) -> None:
    """Append an agent turn's messages. Its first request may be the rest of the request with the user's prompts."""
    first = True
    for message in turn.get("messages", ()):
        kind = message.get("message_type")
        if kind == "system":
            continue
        if kind == "response":
            if not message.get(META, {}).get("cut"):  # Pydantic AI's histories end before it
                out.append(_response(message))
        elif first and before is not None and PROMPT_AT in message:
            _merge(out[-1], message)
        else:
            request = _request(message, message.get("timestamp"))
            if first and before is not None:
                request["parts"] = [part for part in request["parts"] if not _repeats(part, out[-1]["parts"])]
            if request["parts"] or EXACT in message:
                out.append(request)
        first = False


def _request(source: Fields, at: Any) -> Fields:
    parts = [converted for part in source.get("parts", ()) for converted in request_part(part, at)]
    return _restored({"parts": parts, "timestamp": at, "kind": "request"}, source)


def _response(message: Fields) -> Fields:
    at, reason = message.get("timestamp"), message.get("finish_reason")
    response: Fields = {
        "parts": [converted for part in message.get("parts", ()) for converted in response_part(part, at)],
        "usage": usage(message.get("usage"), own=EXACT in message),
        "model_name": message.get("model_name"),
        "timestamp": at,
        "kind": "response",
        "provider_name": message.get("provider_name"),
        "provider_response_id": message.get("provider_response_id"),
        "finish_reason": "tool_call" if reason == "tool_calls" else reason,
    }
    return _restored(present(response), message)


def _restored(message: Fields, source: Fields) -> Fields:
    """Return the message with the SDK's fields from EXACT; null removes a field."""
    return present({**message, **source.get(EXACT, {})})


def _merge(prompts: Fields, message: Fields) -> None:
    """Put a first request's other parts around the user's prompts, as the SDK had them in one request."""
    rest = _request(message, message.get("timestamp"))
    parts = list(rest["parts"])
    for index, part in zip(message[PROMPT_AT], prompts["parts"], strict=False):
        parts.insert(index, part)
    prompts.clear()
    prompts.update({**rest, "parts": parts})


def _repeats(part: Fields, prompts: list[Fields]) -> bool:
    """Return True if the part repeats a prompt of the user turn, as ThreadProtocol's mapping writes first requests."""
    return part["part_kind"] == "user-prompt" and any(
        part.get("content") == prompt.get("content") for prompt in prompts
    )


def _answer_of_other(document: Fields, turn: Fields) -> list[Fields]:
    """Return another agent's turn as one request with its last text; empty if it has none."""
    agent_id = turn.get("agent_id")
    for message in reversed(turn.get("messages", ())):
        if message.get("message_type") != "response":
            continue
        text = "".join(part.get("content") or "" for part in message["parts"] if part.get("part_kind") == "text")
        if text:
            name = document.get("agents", {}).get(agent_id, {}).get("agent_name") or agent_id
            at = message.get("timestamp")
            prompt = {"part_kind": "user-prompt", "content": [f"{name}:", text], "timestamp": at}
            return [{"parts": [prompt], "timestamp": at, "kind": "request"}]
    return []


def parse(version: str) -> Version:
    """Return a version such as "1.107.10" as (1, 107, 10). Raises ValueError if it is no version."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise ValueError(f"a version of pydantic-ai such as 2.68 or 1.107.10 is expected, not {version!r}")
    return tuple(int(number) for number in version.split("."))


def _message(message: Fields, release: Version) -> Fields:
    kinds = REQUEST_KINDS if message["kind"] == "request" else RESPONSE_KINDS
    older = {
        **message,
        "parts": [older_part for part in message["parts"] for older_part in _part(part, kinds, release)],
    }
    if older.get("state") == "suspended" and release < SUSPENDED:
        older["state"] = "incomplete"
    return older


def _part(part: Fields, kinds: dict[str, Version], release: Version) -> list[Fields]:
    kind = part["part_kind"]
    if release < RETRIED and (kind == "retry-feedback" or part.get("outcome") == "retried"):
        return [_retry_prompt(part)]
    if release < kinds.get(kind, ALWAYS):
        part_kind = "user-prompt" if kinds is REQUEST_KINDS else "text"
        return [{"content": part.get("transcript") or "", "part_kind": part_kind}] if kind == "speech" else []
    older = dict(part)
    if older.get("outcome") == "interrupted" and release < INTERRUPTED:
        older["outcome"] = "failed"
    if older.get("tool_kind") not in CORE_TOOL_KINDS and release < FREE_TOOL_KINDS:
        older.pop("tool_kind", None)
    if kind == "user-prompt" and isinstance(older.get("content"), list):
        older["content"] = [older_item for item in older["content"] for older_item in _content(item, release)]
    return [older]


def _retry_prompt(part: Fields) -> Fields:
    content = part.get("content")
    detailed = isinstance(content, list) and all(isinstance(item, dict) and item.keys() >= DETAILS for item in content)
    if not (detailed or isinstance(content, str)):
        content = json.dumps(content, ensure_ascii=False)
    prompt: Fields = {"content": content, "part_kind": "retry-prompt"}
    prompt.update({key: part[key] for key in ("tool_name", "tool_call_id", "timestamp") if key in part})
    return prompt


def _content(item: Any, release: Version) -> list[Any]:
    """Return user content of a kind that the release lacks as its text; empty if it has none."""
    if not isinstance(item, dict) or release >= CONTENT_KINDS.get(item.get("kind", ""), ALWAYS):
        return [item]
    if item.get("content"):
        return [item["content"]]
    return [json.dumps(item["value"], ensure_ascii=False)] if "value" in item else []


def split(messages: Messages) -> list[Messages]:
    """Cut before each request with another run id; without run ids, before a prompt that answers no tool."""
    exchanges: list[list[Fields]] = []
    for number, raw in enumerate(messages):
        before = messages[number - 1] if number else None
        if before is None or (raw["kind"] == "request" and _begins(raw, before)):
            exchanges.append([])
        exchanges[-1].append(raw)
    return list(exchanges)


def _begins(request: Fields, before: Fields) -> bool:
    if before["kind"] != "response":
        return False
    run_id, last = request.get("run_id"), before.get("run_id")
    if run_id is not None and last is not None:
        return bool(run_id != last)
    kinds = {part["part_kind"] for part in request["parts"]}
    return "user-prompt" in kinds and not kinds & ANSWERS


def fill(builder: Builder, messages: Messages) -> str | None:
    """Read an exchange like a run's result; return its end: `aborted` if its last response is unfinished."""
    builder.returns_by_call = False  # results keep the SDK's order
    replace(builder, [read(raw) for raw in messages])
    last = messages[-1]
    if last["kind"] == "response" and last.get("state") in CUT_OFF:
        builder.messages[-1].closed = False
        return "aborted"
    return "complete" if builder.messages else None


READER: Final = Reader(split, fill, lambda messages: read(messages[0]).at)
