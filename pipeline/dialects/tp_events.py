"""data-tp-*: events that ThreadProtocol itself defines, and data-feedback. They mean the same on every wire.

thread_spawn   the child thread gets a `spawned_from` link to this one
thread_merge   this thread gets a `merged_from` link to the other one
thread_end     this thread's `ended_at`
error          the error text of this turn's interruption

data-feedback  a record of the feedback topic (`pipeline.assembly.telemetry`)
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.telemetry import FEEDBACK
from pipeline.turns.times import epoch_ms, iso
from topics.json_text import object_of
from turnmill.identity import thread_uuid

SPAWNED: Final = ("spawned_thread_id", "child_thread_id", "thread_id")
MERGED: Final = ("merged_thread_id", "source_thread_id", "child_thread_id", "thread_id")


def interpret(builder: Builder, event_type: str, data: Any) -> None:
    """Apply the event to the builder's links, thread and error text. The dialect itself adds its SystemMessage."""
    fields = object_of(data)
    this = builder.context.thread_id
    if event_type == "data-tp-thread_spawn":
        child = _thread(builder, fields, SPAWNED)
        if child is not None:
            builder.links.append({"from": child, "thread_id": this, "relation": "spawned_from"})
    elif event_type == "data-tp-thread_merge":
        other = _thread(builder, fields, MERGED)
        if other is not None:
            builder.links.append({"thread_id": other, "relation": "merged_from"})
    elif event_type == "data-tp-thread_end":
        at = epoch_ms(fields.get("timestamp"))
        builder.thread["ended_at"] = iso(builder.at if at is None else at)
    elif event_type == "data-tp-error":
        text = fields.get("error", fields.get("message"))
        builder.error_text = text if isinstance(text, str) else builder.error_text
    elif event_type == FEEDBACK:
        # An event of Pydantic AI has a `name` already: its fields are one level deeper.
        builder.telemetry.append((builder.at, event_type, fields.get("data", data)))


def _thread(builder: Builder, fields: dict[str, Any], names: tuple[str, ...]) -> str | None:
    value = next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), None)
    return thread_uuid(value, builder.context.tenant)[0] if value is not None else None
