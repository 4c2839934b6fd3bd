"""RunAgentInput, the body with which an AG-UI server was called: the user's turn, and the client's results.

Its `messages` are the whole conversation. Those after the last message of the assistant are new: results of tools that
ran in the client, and the user's messages.
"""

from __future__ import annotations

from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.dialects.ag_ui.content import prompt
from pipeline.dialects.ag_ui.snapshot import item_of
from pipeline.dialects.ag_ui.stream import Item, Stream, get, note, objects
from pipeline.turns.lineage import History
from topics.json_text import Fields


def begin(builder: Builder) -> None:
    """Read the request; a body of another shape is ignored."""
    builder.scratch["stream"] = stream = Stream()
    if isinstance(builder.context.request, dict):
        read(builder, stream, builder.context.request)


def read(builder: Builder, stream: Stream, body: Fields) -> None:
    """Read a RunAgentInput. When RUN_STARTED repeats it, nothing changes."""
    messages = list(objects(body.get("messages")))
    fresh = [message for message in messages if message.get("id") not in stream.known]
    stream.known |= {message["id"] for message in messages if isinstance(message.get("id"), str)}
    for message in messages:
        for call in objects(get(message, "toolCalls")):
            function = call.get("function")
            if isinstance(function, dict) and isinstance(call.get("id"), str):
                stream.earlier[call["id"]] = str(function.get("name", ""))
    if stream.asked or not messages:
        return
    stream.asked = True
    tail = [item for item in (item_of(message, builder.at) for message in _tail(fresh)) if item is not None]
    for item in tail:
        if item.role == "tool":
            item.given = True
            stream.items.append(item)
    add_user_turn(builder, [item for item in tail if item.role == "user"])
    if body.get("resume"):
        stream.beside(builder, "custom:ag-ui.resume", {"resume": body["resume"]})


def _tail(messages: list[Fields]) -> list[Fields]:
    """Return all messages after the assistant's last."""
    spoken = [n for n, message in enumerate(messages) if message.get("role") in ("assistant", "reasoning")]
    return messages[spoken[-1] + 1 :] if spoken else messages


def add_user_turn(builder: Builder, items: list[Item]) -> None:
    """Add the user's turn: a prompt for each message."""
    prompts = [prompt_part(item) for item in items]
    if prompts:
        builder.user_turn(prompts)


def prompt_part(item: Item) -> Fields:
    """Return a user's message as a user-prompt part."""
    content: Any = item.attrs.get("content") if "content" in item.attrs else item.says()
    part: Fields = {"part_kind": "user-prompt", "content": prompt(content)}
    note(part, {"id": item.id or None, "name": item.attrs.get("name")})
    return part


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats, and the run that it continues, by the ids of AG-UI."""
    if not isinstance(body, dict):
        return History()
    run, parent = (_text_or_none(get(body, key)) for key in ("runId", "parentRunId"))
    return History(
        list(objects(body.get("messages"))),
        checkpoint=parent if parent != run else None,
        checkpoints=[run] if run else (),
    )


def set_history(builder: Builder, event: Fields) -> None:
    """Read each RUN_STARTED of the stream: it names the run, and may contain a request that was not published."""
    of_event, given = repeated(event), repeated(event.get("input"))
    if builder.history is not None:
        ids = dict.fromkeys([*builder.history.checkpoints, *of_event.checkpoints])
        builder.history = builder.history._replace(checkpoints=tuple(ids))
        return
    asked = repeated(builder.context.request)
    builder.history = History(
        asked.messages or given.messages,
        checkpoint=asked.checkpoint or of_event.checkpoint or given.checkpoint,
        checkpoints=of_event.checkpoints or asked.checkpoints,
    )


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
