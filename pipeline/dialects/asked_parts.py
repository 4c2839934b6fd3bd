"""The parts of requests to models in a run: new words of the user, and results of tools behind their calls."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipeline.assembly.agent_turn import partial
from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part, awaiting
from pipeline.turns.partial_turns import RETRACTED
from topics.json_text import Fields

NOTE: Final = "data-app-note"  # words that a program wrote in the user's name


def write(
    builder: Builder, parts: Sequence[Fields], *, opening: bool = False, names: Mapping[str, str] | None = None
) -> None:
    """Add the user's messages and results of tools to the run.

    `opening`: they come before the run's first response. Messages are the user turn then, and results those of calls
    that an earlier run made: `names` has their tools.
    """
    for part in parts:
        if part["part_kind"] == NOTE:
            note: Fields = {"event_type": NOTE, "event_data": {"content": part["content"]}}
            builder.messages.append(Message("system", builder.at, fields=note, closed=True))
    parts = [part for part in parts if part["part_kind"] != NOTE]
    words = [part for part in parts if part["part_kind"] in ("user-prompt", "file")]
    if opening and words:
        builder.user_turn(_prompts(words))
    results = [part for part in parts if part not in words]
    if opening and results:
        named = [_with_tool_name(part, names or {}) for part in results]
        builder.messages.append(Message("request", builder.at, [Part(part, done=True) for part in named], closed=True))
    for part in () if opening else parts:
        if part["part_kind"] == "tool-return":
            _answer(builder, part, (names or {}).get(part["tool_call_id"], ""))
        else:
            builder.request_after(None).parts.append(Part(part, done=True))


def _with_tool_name(part: Fields, names: Mapping[str, str]) -> Fields:
    if "tool_call_id" not in part:
        return part
    return {**part, "tool_name": names.get(part["tool_call_id"]) or part.get("tool_name", "")}


def _prompts(words: list[Fields]) -> list[Fields]:
    """Return prompts; if files are among the parts, all of them as a prompt."""
    if all(part["part_kind"] == "user-prompt" for part in words):
        return words
    content: list[Any] = []
    for part in words:
        content += part["content"] if isinstance(part["content"], list) else [part["content"]]
    return [{"part_kind": "user-prompt", "content": content}]


def retract(builder: Builder, taken: Sequence[tuple[Message, list[Part]]]) -> None:
    """Keep these parts of messages beside the turn, as taken back."""
    shown = partial(builder.context.agent_id, [(message, parts) for message, parts in taken if parts], ())
    if shown is not None:
        builder.notes.setdefault(RETRACTED, {"messages": []})["messages"] += shown["messages"]


def withdraw(builder: Builder, taken: Message) -> None:
    """Take a message out of the run."""
    builder.messages = [message for message in builder.messages if message is not taken]
    builder.calls = {
        part.fields["tool_call_id"]: (message, part)
        for message in builder.messages
        if message.kind == "response"
        for part in message.parts
        if part.done and "args" in part.fields
    }


def _answer(builder: Builder, part: Fields, name: str) -> None:
    """Put a result after the response with its call; if its id is unknown, give it to the oldest call without an id.

    If an earlier call has the id, a call without one may still be meant, if the id is the name of its function. `name`:
    of the tool, for a result without any call, which is put after the newest response.
    """
    call_id = part["tool_call_id"]
    others = (other.fields for message in builder.messages for other in message.parts)
    if any(part["part_kind"] == "builtin-tool-return" and part["tool_call_id"] == call_id for part in others):
        return  # the server ran the tool, and the repeated history contains its result
    response = builder.last_response()
    if response is not None:
        known = call_id in builder.calls
        nameless = (call for call in response.parts if call.done and call.fields.get("tool_call_id") == "")
        call = next((call for call in nameless if not known or call.fields["tool_name"] == call_id), None)
        if call is not None:
            call.fields["tool_call_id"] = call_id
            builder.calls[call_id] = (response, call)
    if call_id not in builder.calls:
        named = {**part, "tool_name": name or part.get("tool_name", "")}
        builder.request_after(None).parts.append(Part(named, done=True))
        return
    holder = builder.calls[call_id][0]
    twin = awaiting(holder, holder.request, call_id)
    if twin is not None:
        answer = Part({**part, "tool_name": twin.fields["tool_name"]}, done=True)
        builder.request_after(holder).parts.append(answer)
        return
    beside = {key: value for key, value in part.items() if key.startswith("meta:")}
    builder.tool_return(call_id, status=part["status"], content=part["content"], **beside)
