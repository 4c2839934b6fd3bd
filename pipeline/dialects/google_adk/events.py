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

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Stretch
from pipeline.dialects.google_adk import facts, fragments, whole
from pipeline.dialects.google_adk.event import USER, Event, read
from pipeline.dialects.google_adk.memory import Memory
from pipeline.dialects.google_adk.spelling import spelled
from topics.json_text import Fields
from turnmill.errors import InvalidRecord


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
        facts.fail(builder, spelled(raw))
    else:
        apply(builder, read(raw))


def fragments_of(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive fragments of a text that differ only in it, their ids and times (a Stretch)."""
    first = events[start]
    text = fragments.text_of(first)
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
    beside, texts = {**first, **fragments.VARIED}, []
    for at in range(start, len(events)):
        event = events[at]
        more = fragments.text_of(event)
        if more is None or more.kind != text.kind or {**event, **fragments.VARIED} != beside:
            break
        texts.append(more.text)
        begun.event_id = event["id"]
    part.chunks.append("".join(texts))
    return start + len(texts)


def apply(builder: Builder, event: Event) -> None:
    """Apply a fragment, or an event that the session keeps."""
    if event.is_fragment:
        fragments.add(builder, event)
        return
    memory: Memory = builder.scratch
    if event.parts and memory.is_new(event.id, list(event.parts.values())):
        whole.say(builder, event)
    elif not event.parts:
        whole.forget_fragments(builder, event)
    whole.spend(builder, event)
    facts.tell(builder, event)


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
