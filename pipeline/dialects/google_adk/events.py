"""Google ADK's Events (dialect `google-adk`), as its servers stream them and as Python writes them, 1.x and 2.x.

| event | what it does |
|---|---|
| `partial` is true | a fragment, for display: the whole event repeats it |
| whole, of an agent, with parts | a response, in order of arrival; its function responses are the request after it |
| whole, author `user` | a `user-prompt`, or results of the user; at the beginning it is the user's turn |
| `usageMetadata` | of whole events only, once each: the tokens of the agent's newest response |
| `actions.transferToAgent` | SystemMessage `handoff`; the next responses are the other agent's |
| other `actions` | SystemMessage `custom:google-adk.ACTION`; of auth configs the ids of the calls only |
| `errorCode` | SystemMessage `error`, if the event has no content; the run may continue |
| `groundingMetadata`, `citationMetadata` | SystemMessage `source.url` for each page |
| `{"error": …}` without author | the run has failed |
| a list of Events (`POST /run`) | each of them |

Events have no type: their content decides. The stream has no last event either: the publisher's `end` is the end.
Fragments whose whole event never came show that the run broke off, even if that `end` is `complete`.
"""

from typing import Any, Final, NamedTuple

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Stretch
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.google_adk import whole
from pipeline.dialects.google_adk.event import USER, Event, Fragments, Memory, read
from pipeline.dialects.google_adk.parts import spelled
from pipeline.dialects.speakers import speaker
from topics.json_text import Fields
from turnmill.errors import InvalidRecord

VARIED: Final = dict.fromkeys(("content", "id", "timestamp"))  # fields in which fragments always differ


def begin(builder: Builder) -> None:
    """Begin the run with the user's message, from the body with which the server was called."""
    builder.returns_by_call = False  # one event has all results, in the order of the calls
    builder.scratch = Memory()
    asked = new_message(builder.context.request)
    if asked is not None:
        apply(builder, asked)


def event(builder: Builder, raw: Fields) -> None:
    """Handle an event of the stream, or all events of a run at once."""
    match raw:
        case {"event": None, "data": list(several)}:
            for each in several:
                apply(builder, read(each))
            return
    if "error" in raw and "author" not in raw:
        whole.fail(builder, spelled(raw))
    else:
        apply(builder, read(raw))


def fragments_of(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive fragments of a text that differ only in it, their ids and times (a Stretch)."""
    first = events[start]
    text = text_of(first)
    if text is None:
        return start
    try:
        parsed = read(first)
    except (InvalidRecord, KeyError, TypeError, AttributeError):  # the handler raises it
        return start
    memory: Memory = builder.scratch
    begun = memory.open.get(parsed.voice)
    part = begun.message.parts[-1] if begun is not None and begun.message.parts else None
    if begun is None or part is None or builder.open_text.get(parsed.voice) is not part:
        return start
    if part.fields["part_kind"] != text.kind:
        return start
    beside, texts = {**first, **VARIED}, []
    for at in range(start, len(events)):
        event = events[at]
        more = text_of(event)
        if more is None or more.kind != text.kind or {**event, **VARIED} != beside:
            break
        texts.append(more.text)
        begun.event_id = event["id"]
    part.chunks.append("".join(texts))
    return start + len(texts)


def apply(builder: Builder, event: Event) -> None:
    """Apply a fragment, or an event that the session keeps."""
    if event.is_fragment:
        add(builder, event)
        return
    memory: Memory = builder.scratch
    if event.parts and memory.is_new(event.id, list(event.parts.values())):
        whole.say(builder, event)
    elif not event.parts:
        whole.forget_fragments(builder, event)
    whole.spend(builder, event)
    whole.tell(builder, event)


def finish(builder: Builder, end: str) -> None:
    """Set the end before the turn is built: an agent that was still speaking had not finished, whatever `end` says."""
    memory: Memory = builder.scratch
    if end == "complete" and memory.open:
        builder.end_turn("disconnected")


STRETCHES: Final[dict[str | None, Stretch]] = {None: fragments_of}


def new_message(body: Any) -> Event | None:
    """Return the body's message as an event of the user; None if the body has another shape."""
    if isinstance(body, str):
        return read({"author": USER, "content": {"parts": [{"text": body}]}})
    if not isinstance(body, dict):
        return None
    content = body.get("newMessage", body.get("new_message", body if "parts" in body else None))
    return read({"author": USER, "content": content}) if isinstance(content, dict) else None


def add(builder: Builder, event: Event) -> None:
    """Append a fragment to its agent's current output, as parts without an end.

    A call in a fragment may lack arguments that come in pieces: only the call of the whole event counts.
    """
    pieces = [piece for part in event.parts.values() if (piece := _part_and_text(part)) is not None]
    if not pieces:
        return
    begun = _begun(builder, event)
    for fields, text in pieces:
        last = begun.message.parts[-1] if begun.message.parts else None
        if last is None or "args" in fields or last.fields["part_kind"] != fields["part_kind"]:
            last = Part(fields)
            begun.message.parts.append(last)
        last.chunks.append(text)
        builder.open_text[event.voice] = last


class Text(NamedTuple):
    """The text of a fragment, and the kind of its part."""

    kind: str
    text: str


def text_of(event: Any) -> Text | None:
    """Return the text of a fragment that consists of one text; None for any other event."""
    if event.__class__ is not dict or event.get("partial") is not True or event.get("id").__class__ is not str:
        return None
    content = event.get("content")
    parts = content.get("parts") if content.__class__ is dict else None
    if parts.__class__ is not list or len(parts) != 1 or parts[0].__class__ is not dict:
        return None
    part = parts[0]
    text = part.get("text")
    if text.__class__ is not str or not text:
        return None
    if len(part) == 1:
        return Text("text", text)
    return Text("thinking", text) if len(part) == 2 and part.get("thought") is True else None


def _begun(builder: Builder, event: Event) -> Fragments:
    """Return the agent's current response; a new response if earlier events were lost."""
    memory: Memory = builder.scratch
    begun = memory.open.get(event.voice)
    if begun is not None and event.voice not in builder.open_text:  # cleared when events are missing
        builder.messages.remove(begun.message)
        begun = None
    if begun is None:
        fields: Fields = {"agent_id": speaker(builder, event.author)}
        begun = memory.open[event.voice] = Fragments(Message("response", builder.at, fields=fields), event.id)
        begun.message.first_part_at = builder.at
        builder.messages.append(begun.message)
    begun.event_id = event.id
    return begun


def _part_and_text(part: Fields) -> tuple[Fields, str] | None:
    """Return an incomplete part, and the text that the fragment adds."""
    match part:
        case {"text": str(text)}:
            return {"part_kind": "thinking" if part.get("thought") is True else "text", "content": ""}, text
        case {"functionCall": {"name": str(name), **call}}:
            call_id = call.get("id") if isinstance(call.get("id"), str) else ""
            return {"part_kind": "tool-call", "tool_name": name, "tool_call_id": call_id, "args": call.get("args")}, ""
    return None
