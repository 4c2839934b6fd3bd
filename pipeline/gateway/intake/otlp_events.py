"""Bodies of OTLP as events of the wire `otel`: spans, and log records about them. Pure.

A body in protobuf is first made what it is in JSON. What is not about models and agents is left out.
OTLP: https://opentelemetry.io/docs/specs/otlp/
"""

from importlib import import_module
from typing import Any, Final, Literal

from pipeline.dialects.otel.spans import is_about_models
from topics.json_text import Fields, list_of, object_of, objects
from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.envelope import loads

Signal = Literal["traces", "logs"]
MAX_EVENTS: Final = 128  # events of a span that are kept
NAMES: Final[dict[Signal, tuple[str, str, str]]] = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}
REQUESTS: Final[dict[Signal, tuple[str, str]]] = {  # the module and the name of a signal's messages
    "traces": ("opentelemetry.proto.collector.trace.v1.trace_service_pb2", "ExportTrace"),
    "logs": ("opentelemetry.proto.collector.logs.v1.logs_service_pb2", "ExportLogs"),
}
TURNMILL: Final = "turnmill"  # the scope of the spans that workers send about turns


def message(signal: Signal, kind: str) -> Any:
    """Return the class of a protobuf message; only a gateway that is sent protobuf imports them."""
    module, name = REQUESTS[signal]
    return getattr(import_module(module), f"{name}{kind}")


def body_of(signal: Signal, data: bytes, *, protobuf: bool) -> Any:
    """Return a body as what OTLP's JSON says. Raises InvalidRecord if it can't be read."""
    if not protobuf:
        return loads(data)
    try:
        return _plain(message(signal, "ServiceRequest").FromString(data))
    except import_module("google.protobuf.message").DecodeError as error:
        raise InvalidRecord(Reason.UNDECODABLE, f"not an OTLP request in protobuf: {error}") from None


def _plain(value: Any) -> Any:
    """Return a protobuf message by the names that its fields have in JSON; bytes are hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if not hasattr(value, "ListFields"):
        return value
    return {
        field.json_name: [_plain(item) for item in held] if field.is_repeated else _plain(held)
        for field, held in value.ListFields()
    }


def events_of(signal: Signal, body: Any) -> tuple[list[Fields], list[str]]:
    """Return the events of a body, and why spans or log records about models were left out. Raises InvalidRecord."""
    resources, scopes, items = NAMES[signal]
    if not isinstance(body, dict) or not isinstance(body.get(resources, []), list):
        raise InvalidRecord(
            Reason.INVALID_EVENT, f"not an OTLP request: an object with the list {resources!r} is expected"
        )
    events: list[Fields] = []
    refused: list[str] = []
    make = _span if signal == "traces" else _log
    for of_resource in objects(body.get(resources)):
        resource = _attributes(object_of(of_resource.get("resource")).get("attributes"))
        for of_scope in objects(of_resource.get(scopes)):
            scope = object_of(of_scope.get("scope"))
            about = {"scope": str(scope.get("name") or ""), "scope_version": str(scope.get("version") or "")}
            for item in objects(of_scope.get(items)) if about["scope"] != TURNMILL else ():
                try:
                    events.append({**make(item), **about, "resource": resource})
                except (ValueError, TypeError, OverflowError) as error:
                    refused.append(str(error))
    known = {event["trace_id"] for event in events if is_about_models(event)}
    events = [event for event in events if is_about_models(event) or _closes(event, known)]
    refused += ["a log record about a model needs the ids of its span" for event in events if not event["span_id"]]
    return [event for event in events if event["trace_id"] and event["span_id"]], refused


def _closes(event: Fields, known: set[str]) -> bool:
    """Return whether a span of another kind ends a trace with spans about models: so its turns are made at once."""
    return event["type"] == "span" and not event["parent_id"] and event["trace_id"] in known


def _span(span: Fields) -> Fields:
    events = [
        {"name": event.get("name"), "attributes": _attributes(event.get("attributes"))}
        for event in objects(span.get("events"))[:MAX_EVENTS]
    ]
    status = object_of(span.get("status"))
    return {
        "type": "span",
        "trace_id": _id(span.get("traceId"), 32),
        "span_id": _id(span.get("spanId"), 16),
        "parent_id": _id(span["parentSpanId"], 16) if _is_told(span.get("parentSpanId")) else "",
        "name": str(span.get("name") or ""),
        "start": _time(span.get("startTimeUnixNano")),
        "end": _time(span.get("endTimeUnixNano")),
        "status": {"code": status.get("code", 0), "message": str(status.get("message") or "")},
        "attributes": _attributes(span.get("attributes")),
        "events": events,
        "dropped_attributes": int(span.get("droppedAttributesCount") or 0),
    }


def _log(log: Fields) -> Fields:
    attributes = _attributes(log.get("attributes"))
    at = _time(log.get("timeUnixNano")) or _time(log.get("observedTimeUnixNano"))
    return {
        "type": "log",
        "trace_id": _id(log["traceId"], 32) if _is_told(log.get("traceId")) else "",
        "span_id": _id(log["spanId"], 16) if _is_told(log.get("spanId")) else "",
        "name": str(log.get("eventName") or attributes.get("event.name") or ""),
        "start": at,
        "end": at,
        "body": _value(log.get("body")),
        "attributes": attributes,
    }


def _is_told(value: Any) -> bool:
    """Return whether there is an id; zeros alone are none (W3C), though some exporters send them."""
    return bool(value) and set(str(value)) != {"0"}


def _id(value: Any, digits: int) -> str:
    """Return an id in hexadecimal digits. Raises ValueError."""
    text = str(value).lower()
    if len(text) != digits or not set(text) <= set("0123456789abcdef") or not _is_told(text):
        raise ValueError(f"an id has {digits} hexadecimal digits that are not all 0, got {value!r:.80}")
    return text


def _time(value: Any) -> int:
    at = int(value or 0)
    if not 0 <= at < 2**63:
        raise ValueError(f"a time is in ns since 1970, got {value!r:.80}")
    return at


def _attributes(pairs: Any) -> Fields:
    return {str(pair.get("key")): _value(pair.get("value")) for pair in objects(pairs)}


def _value(value: Any) -> Any:
    """Return the JSON of an AnyValue; null for an empty one."""
    match value:
        case {"stringValue": inner} | {"boolValue": inner} | {"doubleValue": inner}:
            return inner
        case {"intValue": inner}:
            return int(inner)
        case {"arrayValue": inner}:
            return [_value(item) for item in list_of(object_of(inner).get("values"))]
        case {"kvlistValue": inner}:
            return _attributes(object_of(inner).get("values"))
        case {"bytesValue": inner}:
            return inner
    return None
