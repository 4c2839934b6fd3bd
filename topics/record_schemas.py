"""The records of the topics as pydantic models, and their JSON Schemas in files of this package.

The models are only for making schemas and documents: workers read and write records by `turnmill.wire.envelope` and the
other modules of this package.

The files are `topics/schemas/TOPIC.vN.json`. N is the records' version, `v`. Within one version a schema may only
change so that existing programs still work: on `events`, the records of old producers stay valid; on the others, new
records stay valid for old consumers. `make docs` writes the files (`docs/schemas.py`).
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, Literal, NotRequired, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from topics import catalog, control, dead_letter, feedback, notice, state, telemetry, turn_record
from topics.agent_event import AgentEvent
from topics.catalog import CONTROL, DEAD_LETTERS, EVENTS, FEEDBACK, NOTICES, STATE, TELEMETRY, TURNS, Topic
from topics.control import ControlRecord
from topics.feedback import FeedbackRecord
from topics.notice import NoticeRecord
from topics.telemetry import TelemetryRecord
from topics.thread import AgentConfig, Turn
from topics.turn_record import TurnRecord
from turnmill.errors import Reason
from turnmill.wire import envelope

VERSIONS: Final[Mapping[str, int]] = {
    EVENTS.name: envelope.VERSION,
    TURNS.name: turn_record.VERSION,
    TELEMETRY.name: telemetry.VERSION,
    DEAD_LETTERS.name: dead_letter.VERSION,
    STATE.name: state.VERSION,
    NOTICES.name: notice.VERSION,
    FEEDBACK.name: feedback.VERSION,
    CONTROL.name: control.VERSION,
    catalog.FACTS.name: notice.VERSION,
}


class StateSegment(BaseModel):
    """One line of this JSON, followed by raw records of one open run with these `sizes` in bytes; `at` is broker ms.

    `clocks`: times (broker ms) since when the run is open, waits for a missing event, and has ended by its stream.
    `read`: the raw offset up to which the events of a parked run were read.
    """

    v: Literal[1]
    tenant: str | None
    at: int
    sizes: list[int]
    clocks: tuple[int, int | None, int | None]
    read: int | None = None
    traceparent: str | None = None


class StateMark(BaseModel):
    """A run that is closed; all its events up to `seq` were read."""

    v: Literal[1]
    tenant: str | None
    seq: int
    complete: bool
    at: int
    revision: int
    cut: bool = False


def _model(record: type, described: Mapping[str, Any]) -> type[BaseModel]:
    """Return a TypedDict as a model; `described`: field -> a ThreadProtocol model that describes it in more detail."""
    # A TypedDict's `__required_keys__` contains all keys if annotations are strings.
    marks = get_type_hints(record, include_extras=True)
    hints = {**get_type_hints(record), **described}
    fields: dict[str, Any] = {
        name: (hint, Field(None, json_schema_extra=_without_default) if get_origin(marks[name]) is NotRequired else ...)
        for name, hint in hints.items()
    }
    config = ConfigDict(extra="allow", protected_namespaces=())
    return create_model(record.__name__, __config__=config, __doc__=record.__doc__, **fields)


def _without_default(schema: dict[str, Any]) -> None:
    """Remove the default (null), since a field that may be missing is never null."""
    del schema["default"]


MODELS: Final[Mapping[str, Sequence[type[BaseModel]]]] = {
    EVENTS.name: [AgentEvent],
    TURNS.name: [
        _model(TurnRecord, {"v": Literal[turn_record.VERSION], "turn": Turn | None, "agents": list[AgentConfig]})
    ],
    TELEMETRY.name: [_model(TelemetryRecord, {"v": Literal[telemetry.VERSION]})],
    STATE.name: [StateSegment, StateMark],
    NOTICES.name: [_model(NoticeRecord, {"v": Literal[notice.VERSION]})],
    catalog.FACTS.name: [_model(NoticeRecord, {"v": Literal[notice.VERSION]})],
    CONTROL.name: [_model(ControlRecord, {"v": Literal[control.VERSION]})],
    FEEDBACK.name: [_model(FeedbackRecord, {"v": Literal[feedback.VERSION]})],
}


def dead_letter_headers() -> dict[str, Any]:
    """Return the JSON Schema of a dead letter's headers; its key and value may be any bytes."""
    sample = dead_letter.DeadLetter(Reason.UNDECODABLE, "", "", 0, 0, 0, None, None)
    names = [name for name, _ in sample.headers()]
    properties: dict[str, Any] = {name: {"type": "string"} for name in names}
    properties[f"{dead_letter.PREFIX}reason"]["enum"] = [reason.value for reason in Reason]
    return {"type": "object", "required": names, "properties": properties}


def schema_id(topic: Topic) -> str:
    """Return the `$id` of the schema of a topic's records."""
    return f"urn:turnmill:schema:{topic.name}:{VERSIONS[topic.name]}"


def name(topic: Topic) -> str:
    """Return the file name of a topic's schema."""
    return f"{topic.name}.v{VERSIONS[topic.name]}.json"


def packaged(topic: Topic) -> str:
    """Return the text of the schema file in the package."""
    return (files("topics") / "schemas" / name(topic)).read_text("utf-8")
