"""Events of an AG-UI stream that are not messages: state, activities, custom, of sub-agents, unknown."""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.feedback_events import FEEDBACK
from pipeline.dialects.ag_ui.stream import Stream, get, stream_of, text_of
from pipeline.dialects.tp_events import interpret
from topics.json_text import Fields

UNSAID: Final = frozenset({"type", "timestamp", "rawEvent", "raw_event"})


def beside(builder: Builder, event: Fields) -> None:
    """Add state or an activity at its position among the messages."""
    _add_system_event(builder, f"custom:ag-ui.{event['type'].lower()}", _data(event))


def delta(builder: Builder, event: Fields) -> None:
    """Keep consecutive patches in one message, as separate entries: a client skips a patch that fails as a whole."""
    stream, name = builder.scratch["stream"], f"custom:ag-ui.{event['type'].lower()}"
    patch = event.get("delta", event.get("patch"))
    last = stream.items[-1].event if stream.items else None
    data: Any = last.fields["event_data"] if last is not None else None
    rest = {key: value for key, value in _data(event).items() if key not in ("delta", "patch")}
    if last is not None and last.fields["event_type"] == name and data == {**rest, "patches": data["patches"]}:
        data["patches"].append(patch)
    else:
        _add_system_event(builder, name, {**rest, "patches": [patch]})


def custom(builder: Builder, event: Fields) -> None:
    """Add the application's event, telemetry, or an event of ThreadProtocol."""
    name, value = text_of(event, "name"), event.get("value")
    if not name.startswith("data-sys-"):
        if name.startswith("data-tp-") or name == FEEDBACK:
            interpret(builder, name, value)
        _add_system_event(builder, name if name.startswith(("data-", "custom:")) else f"custom:{name}", value)
        return
    counted = name == "data-sys-usage" and isinstance(value, dict) and get(event, "subagentRunId") is None
    newest = builder.scratch["stream"].newest() if counted else None
    if newest is None:
        builder.telemetry.append((builder.at, name, value))
    else:
        newest.usage = value  # counted with its response


def subagent_started(builder: Builder, event: Fields) -> None:
    """Begin a sub-agent: its events name it, and its messages are not part of this conversation."""
    name = text_of(event, "subagentRunId")
    stream: Stream = builder.scratch["stream"]
    stream_of(builder, event)
    stream.beside(builder, "custom:ag-ui.subagent", _data(event)).attrs["subagent"] = name


def subagent_ended(builder: Builder, event: Fields) -> None:
    """End a sub-agent."""
    name = text_of(event, "subagentRunId")
    stream: Stream = builder.scratch["stream"]
    item = next((item for item in stream.items if item.attrs.get("subagent") == name), None)
    if item is None or item.event is None:
        raise Violation(f"{event['type']}: no sub-agent has the id {name!r:.80}")
    item.event.fields["event_data"] |= _data(event)


def unknown(builder: Builder, event: Fields) -> None:
    """Keep an event of an unknown type: protocols grow."""
    kind = event["type"]
    if not isinstance(kind, str):
        raise TypeError(kind)
    _add_system_event(builder, f"data-app-{kind}", _data(event))


def _add_system_event(builder: Builder, event_type: str, data: Any) -> None:
    stream: Stream = builder.scratch["stream"]
    stream.beside(builder, event_type, data)


def _data(event: Fields) -> Fields:
    return {key: value for key, value in event.items() if key not in UNSAID and value is not None}
