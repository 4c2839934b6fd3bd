"""The AsyncAPI 3 document of Threadmill's topics, from the catalog and the records' models. Pure.

https://www.asyncapi.com/docs/reference/specification/v3.0.0, Kafka bindings 0.5.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from threadmill import traceparent
from threadmill.errors import Reason
from topics import dead_letter
from topics.agent_event import AgentEvent
from topics.catalog import CATALOG, DEAD_LETTERS, EVENTS, STATE, TELEMETRY, TURNS, Topic
from topics.operation import Operation
from topics.telemetry import TelemetryRecord
from topics.thread import AgentConfig, Turn
from topics.turn_record import TurnRecord

VERSION = "3.0.0"
KAFKA_BINDING = "0.5.0"
REF = "#/components/schemas/{model}"

Document = dict[str, Any]

TRACE_HEADERS: Final[Document] = {
    "type": "object",
    "properties": {traceparent.HEADER: {"type": "string", "description": "The span of the run's producer (W3C)."}},
}


class StateSegment(BaseModel):
    """One line of this JSON, and behind it raw records of one open run, so many bytes each; `at` is broker ms.

    `clocks`: since when the run is open, waits for a missing event, has ended by its stream (broker ms). `read`: the
    raw offset up to which the events of a parked run were read.
    """

    v: Literal[1]
    tenant: str | None = None
    at: int
    sizes: list[int]
    clocks: tuple[int, int | None, int | None] | None = None
    read: int | None = None
    traceparent: str | None = None


class StateMark(BaseModel):
    """A run that is over; all events up to `seq` were seen."""

    v: Literal[1]
    tenant: str | None = None
    seq: int
    complete: bool
    at: int
    revision: int
    cut: bool = False


def _model(record: type, described: Mapping[str, Any]) -> type[BaseModel]:
    """A TypedDict as a model; `described`: field -> a ThreadProtocol model that describes it more closely."""
    required: frozenset[str] = record.__required_keys__  # type: ignore[attr-defined]  # a TypedDict has it
    hints = {**get_type_hints(record), **described}
    fields: dict[str, Any] = {name: (hint, ... if name in required else None) for name, hint in hints.items()}
    config = ConfigDict(extra="allow", protected_namespaces=())
    return create_model(record.__name__, __config__=config, __doc__=record.__doc__, **fields)


MODELS: Final[Mapping[str, Sequence[type[BaseModel]]]] = {
    EVENTS.name: [AgentEvent],
    TURNS.name: [_model(TurnRecord, {"turn": Turn | None, "agents": list[AgentConfig]})],
    TELEMETRY.name: [_model(TelemetryRecord, {})],
    STATE.name: [StateSegment, StateMark],
}


def document(
    prefix: str = "threadmill",
    *,
    operations: Iterable[Operation] = (),
    version: str = "0",
    brokers: Sequence[str] = (),
    partitions: int | None = None,
    replicas: int | None = None,
) -> Document:
    """-> the document of the topics under `prefix`, as plain JSON values. `brokers` are host:port each; `operations`
    are what the pipeline does with them.
    """
    mode: JsonSchemaMode = "validation"
    models = [(model, mode) for used in MODELS.values() for model in used]
    schemas = models_json_schema(models, ref_template=REF)[1]["$defs"]
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "Threadmill",
            "version": version,
            "description": "Streams of AI agents become complete, canonical conversations. Records of one thread have "
            "the same key, and so the same partition number in every topic.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {f"broker{n}": {"host": host, "protocol": "kafka"} for n, host in enumerate(brokers, 1)},
        "channels": {topic.name: _channel(topic, prefix, partitions, replicas) for topic in CATALOG},
        "operations": {
            operation.name: {
                "action": operation.action,
                "summary": operation.summary,
                "channel": {"$ref": f"#/channels/{operation.topic.name}"},
                "messages": [
                    {"$ref": f"#/channels/{operation.topic.name}/messages/{name}"}
                    for name in _messages(operation.topic)
                ],
            }
            for operation in operations
        },
        "components": {
            "messages": {name: message for topic in CATALOG for name, message in _messages(topic).items()},
            "schemas": schemas,
        },
    }


def _channel(topic: Topic, prefix: str, partitions: int | None, replicas: int | None) -> Document:
    configuration = {
        "cleanup.policy": topic.cleanup.split(","),
        "retention.ms": topic.retention_ms,
        "max.message.bytes": topic.max_message_bytes,
    }
    counts = {"partitions": partitions, "replicas": replicas}
    return {
        "address": topic.full_name(prefix),
        "summary": topic.summary,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _messages(topic)},
        "bindings": {
            "kafka": {
                **{name: count for name, count in counts.items() if count},
                "topicConfiguration": configuration,
                "bindingVersion": KAFKA_BINDING,
            }
        },
    }


def _messages(topic: Topic) -> dict[str, Document]:
    key = {"kafka": {"key": {"type": "string", "description": topic.key}, "bindingVersion": KAFKA_BINDING}}
    if topic is DEAD_LETTERS:
        return {
            "DeadLetter": {
                "summary": "The record as it came, byte for byte.",
                "contentType": "application/octet-stream",
                "headers": _dead_letter_headers(),
                "bindings": key,
            }
        }
    return {
        model.__name__: {
            "summary": (model.__doc__ or "").strip().splitlines()[0],
            "payload": {"$ref": REF.format(model=model.__name__)},
            "bindings": key,
            **({"headers": TRACE_HEADERS} if topic is EVENTS else {}),
        }
        for model in MODELS[topic.name]
    }


def _dead_letter_headers() -> Document:
    sample = dead_letter.DeadLetter(Reason.UNDECODABLE, "", "", 0, 0, 0, None, None)
    names = [name for name, _ in sample.headers()]
    properties: Document = {name: {"type": "string"} for name in names}
    properties[f"{dead_letter.PREFIX}reason"]["enum"] = [reason.value for reason in Reason]
    return {"type": "object", "required": names, "properties": properties}
