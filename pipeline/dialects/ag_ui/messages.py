"""Whole AG-UI messages: of RunAgentInput, the body with which a server was called, of snapshots and of histories.

The body has the whole conversation. Its messages after the assistant's last are new: results of tools that ran in the
client, and the user's messages.
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Part
from pipeline.dialects.ag_ui.stream import BUILTIN, Item, Stream, get, note, prompt, seal_call, text_of
from pipeline.dialects.ag_ui.text import CALL, THOUGHT, call_fields
from pipeline.dialects.wire_values import text_or_empty, text_or_none
from pipeline.turns.arguments import arguments
from pipeline.turns.lineage import History
from topics.json_text import Fields, objects

SPEAKERS: Final = frozenset({"assistant", "reasoning", "user", "system", "developer", "tool"})
OF_MESSAGE: Final = ("name", "encryptedValue")
OF_RESULT: Final = ("toolCallId", "content", "error", "encryptedValue")


def begin(builder: Builder) -> None:
    """Read the request; a body of another shape is ignored."""
    builder.scratch["stream"] = stream = Stream()
    if isinstance(builder.context.request, dict):
        read(builder, stream, builder.context.request)


def read(builder: Builder, stream: Stream, body: Fields) -> None:
    """Read a RunAgentInput. When RUN_STARTED repeats it, nothing changes."""
    messages = objects(body.get("messages"))
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
    run, parent = (text_or_none(get(body, key)) or None for key in ("runId", "parentRunId"))
    checkpoint, checkpoints = parent if parent != run else None, [run] if run else ()
    return History(objects(body.get("messages")), checkpoint=checkpoint, checkpoints=checkpoints)


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


def item_of(message: Fields, at: int) -> Item | None:
    """Return a message's entry in the flat list; None if its role is unknown."""
    role, message_id = message.get("role"), get(message, "id")
    if role not in SPEAKERS:
        return None
    item = Item(role, text_or_empty(message_id), at, at)
    content = message.get("content")
    if role == "tool":
        text_of(message, "toolCallId")
        item.attrs = {"content": "", **_named_fields(message, OF_RESULT)}
        return item
    item.attrs = _named_fields(message, OF_MESSAGE)
    if role == "user":
        item.attrs["content"] = content
    elif isinstance(content, str) and content:
        kind = "thinking" if role == "reasoning" else "text"
        item.texts.append(Part({"part_kind": kind, "content": content}, done=True))
    item.calls += map(_call, objects(get(message, "toolCalls")))
    return item


def _named_fields(message: Fields, names: tuple[str, ...]) -> Fields:
    return {name: get(message, name) for name in names if get(message, name) is not None}


def _call(call: Fields) -> Part:
    function = call["function"]
    written, encrypted = function.get("arguments"), get(call, "encryptedValue")
    part = Part(call_fields(text_of(call, "id"), text_of(function, "name")), done=True)
    part.chunks = [written] if isinstance(written, str) else []
    part.fields["args"] = arguments(written) if isinstance(written, str) else written or {}
    seal_call(part, encrypted)
    return part


def call_id_of(part: Part) -> str:
    """Return a call's id as the wire has it."""
    fields = part.fields
    if fields["part_kind"] == "tool-call":
        return str(fields["tool_call_id"])
    return f"{BUILTIN}|{fields.get('provider_name', '')}|{fields['tool_call_id']}"


def replace(builder: Builder, stream: Stream, messages: list[Any]) -> None:
    """Replace the streamed messages by the whole conversation.

    Its order counts, also where it gives messages other ids at the end, as results of tools. A missing message is
    removed, but thoughts stay if the snapshot has none at all. Messages older than the run are not part of its turn.

    In a history that a program has written anew, a user's message that nobody sent stands before the run's messages:
    it is beside them, and none of them is removed.
    """
    given = [item for item in (item_of(message, builder.at) for message in objects(messages)) if item is not None]
    begins = _begins(stream, given)
    new, made = given[begins:], _made(stream, given[:begins])
    for item in made:
        stream.rewritten = True
        stream.known.add(item.id)
        stream.beside(builder, "custom:ag-ui.summary", {"id": item.id, "content": item.attrs.get("content")})
    wanted = {(item.role, item.id): item for item in new if item.id}
    answers = {item.attrs["toolCallId"]: item for item in new if item.role == "tool"}
    thoughts = any(item.role == "reasoning" for item in given)
    first: list[Item] = []
    behind: dict[Item, list[Item]] = {}  # what has no place in the snapshot, by the message before it
    place = first
    for item in stream.items:
        other = wanted.get((item.role, item.id)) or answers.get(item.attrs.get("toolCallId"))
        if item.role == "event" or item.given or (item.role == "reasoning" and not thoughts):
            place.append(item)
        elif other is not None and other not in behind:
            other.at, other.last_at, other.usage = item.at, item.last_at, item.usage
            _go_on(builder, stream, item, other)
            place = behind[other] = []
        elif stream.rewritten:
            place.append(item)
        else:
            _forget(builder, stream, item)
    write_items(stream, first + [each for item in new for each in (item, *behind.get(item, ()))])


def _made(stream: Stream, older: list[Item]) -> list[Item]:
    """Return messages in the user's name that no client has sent, if the client's are known."""
    if not stream.known:
        return []
    streamed = {item.id for item in stream.items}
    return [item for item in older if item.role == "user" and item.id not in stream.known | streamed]


def write_items(stream: Stream, items: list[Item]) -> None:
    """Set the flat list to these items."""
    stream.items = items
    for item in items:
        for part in item.calls:
            stream.calls[call_id_of(part)] = (item, part)


def _begins(stream: Stream, given: list[Item]) -> int:
    """Return where the run's messages begin: after the last one of the request, or after the user's last one."""
    streamed = {(item.role, item.id) for item in stream.items if not item.given}
    old = [n for n, item in enumerate(given) if item.id in stream.known and (item.role, item.id) not in streamed]
    if not old:
        old = [n for n, item in enumerate(given) if item.role == "user" and (item.role, item.id) not in streamed]
    return old[-1] + 1 if old else 0


def _go_on(builder: Builder, stream: Stream, item: Item, other: Item) -> None:
    """Let open parts of a message continue after the snapshot's text of it."""
    key = stream.key(THOUGHT + item.id if item.role == "reasoning" else item.id)
    if key in builder.open_text:
        if not other.texts:
            other.texts.append(Part({"part_kind": "thinking" if item.role == "reasoning" else "text", "content": ""}))
        other.texts[-1].done = False
        builder.open_text[key] = other.texts[-1]
    for part in other.calls:
        key = stream.key(CALL + call_id_of(part))
        if key in builder.open_text:
            part.done = False
            builder.open_text[key] = part


def _forget(builder: Builder, stream: Stream, item: Item) -> None:
    for part in item.calls:
        stream.calls.pop(call_id_of(part), None)
        builder.open_text.pop(stream.key(CALL + call_id_of(part)), None)
    builder.open_text.pop(stream.key(THOUGHT + item.id if item.role == "reasoning" else item.id), None)
