"""The AsyncAPI 3 document of Turnmill's topics, from the catalog and the records' models. Pure.

https://www.asyncapi.com/docs/reference/specification/v3.0.0, Kafka bindings 0.5.0.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from topics.catalog import CATALOG, DEAD_LETTERS, EVENTS, Operation, Topic
from topics.record_schemas import MODELS, dead_letter_headers, schema_id
from turnmill.wire import traceparent

VERSION = "3.0.0"
KAFKA_BINDING = "0.5.0"
REF = "#/components/schemas/{model}"
SCHEMA: Final = "x-json-schema"  # of a message: the `$id` of its topic's schema, in the folder `schemas`

Document = dict[str, Any]

TRACE_HEADERS: Final[Document] = {
    "type": "object",
    "properties": {traceparent.HEADER: {"type": "string", "description": "The span of the run's producer (W3C)."}},
}


def document(
    prefix: str = "turnmill",
    *,
    operations: Iterable[Operation] = (),
    version: str = "0",
    brokers: Sequence[str] = (),
    partitions: int | None = None,
    replicas: int | None = None,
) -> Document:
    """Return the document of the topics under `prefix`, as plain JSON values.

    `brokers`: host:port each; `operations`: those of the pipeline on the topics.
    """
    mode: JsonSchemaMode = "validation"
    models = [(model, mode) for used in MODELS.values() for model in used]
    schemas = models_json_schema(models, ref_template=REF)[1]["$defs"]
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "Turnmill",
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
                SCHEMA: schema_id(topic),
                "headers": dead_letter_headers(),
                "bindings": key,
            }
        }
    return {
        model.__name__: {
            "summary": (model.__doc__ or "").strip().splitlines()[0],
            "payload": {"$ref": REF.format(model=model.__name__)},
            SCHEMA: schema_id(topic),
            "bindings": key,
            **({"headers": TRACE_HEADERS} if topic is EVENTS else {}),
        }
        for model in MODELS[topic.name]
    }
