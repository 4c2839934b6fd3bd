"""Exports of OpenTelemetry over HTTP: a real gateway, in front of a real broker."""

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from pipeline.settings import Settings
from tests.support.gateways import Running, Tokens, client, running
from tests.support.otel import events_in, requests_of
from tests.support.topic_records import read_all
from topics.catalog import EVENTS
from turnmill.wire.envelope import decode

PROTOBUF = {"Content-Type": "application/x-protobuf"}
BODIES: dict[str, Any] = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}


def protobuf(signal: str, body: Any) -> bytes:
    """What an exporter would have sent: protobuf's own JSON has ids in base64, OTLP's in hexadecimal digits."""

    def ids(value: Any) -> Any:
        if isinstance(value, list):
            return [ids(item) for item in value]
        if not isinstance(value, dict):
            return value
        made = {key: ids(item) for key, item in value.items()}
        for key in {"traceId", "spanId", "parentSpanId"} & made.keys():
            made[key] = b64encode(bytes.fromhex(made[key])).decode()
        return made

    message: bytes = ParseDict(ids(body), BODIES[signal](), ignore_unknown_fields=True).SerializeToString()
    return message


async def events(settings: Settings) -> dict[tuple[str | None, int], dict[str, Any]]:
    """(tenant, seq) -> the event of a record."""
    envelopes = [decode(record.value) for record in await read_all(settings, EVENTS)]  # type: ignore[attr-defined]
    return {(envelope.get("tenant"), envelope["seq"]): envelope["events"][0] for envelope in envelopes}


async def test_protobuf_json_and_gzip_say_the_same_through_any_gateway(
    gateway_settings: Settings, guarded: Running, tokens: Tokens
) -> None:
    sent = requests_of("agent-framework")
    async with client(guarded.url, tokens.acme) as http:
        for request in sent:
            body = protobuf(request["signal"], request["body"])
            answer = await http.post(f"/v1/{request['signal']}", content=body, headers=PROTOBUF)
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["content-type"] == "application/x-protobuf"
    other = guarded.settings.model_copy(update={"gateway_port": 0})
    async with running(other) as second, client(second.url, tokens.acme) as http:
        for request in reversed(sent):
            packed = gzip.compress(json.dumps(request["body"]).encode())
            headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
            answer = await http.post(f"/v1/{request['signal']}", content=packed, headers=headers)
            assert (answer.status_code, answer.json()) == (200, {})
    known = await events(gateway_settings)
    assert {tenant for tenant, _ in known} == {"acme"}
    assert sorted(event["span_id"] for event in known.values()) == sorted(
        event["span_id"] for event in events_in("agent-framework")
    )


async def test_a_part_of_a_batch_is_taken(guarded: Running, gateway_settings: Settings, tokens: Tokens) -> None:
    body = requests_of("pydantic-ai")[0]["body"]
    spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.append({**spans[0], "spanId": "short"})
    async with client(guarded.url, tokens.operator) as http:
        answer = await http.post("/v1/traces", json=body, params={"tenant": "globex"})
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
        assert "16 hexadecimal digits" in answer.json()["partialSuccess"]["errorMessage"]
        spans[-1] = {**spans[0], "spanId": "00000000000000aa", "attributes": spans[0]["attributes"][:1]}
        large = {"key": "gen_ai.input.messages", "value": {"stringValue": "x" * 1_100_000}}
        spans[-1]["attributes"] = [*spans[-1]["attributes"], large]
        answer = await http.post("/v1/traces", content=protobuf("traces", body), headers=PROTOBUF)
        told = ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert told.rejected_spans == 1
        assert "an attribute may have" in told.error_message
    assert {tenant for tenant, _ in await events(gateway_settings)} == {"globex", None}


async def test_a_span_that_is_too_large_for_a_record_comes_in_pieces(
    guarded: Running, gateway_settings: Settings, tokens: Tokens
) -> None:
    body = requests_of("pydantic-ai")[0]["body"]
    [*_, root] = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    more = [{"key": f"large.{n}", "value": {"stringValue": "x" * 500_000}} for n in range(3)]
    root["attributes"] = [*root["attributes"], *more]
    async with client(guarded.url, tokens.acme) as http:
        answer = await http.post("/v1/traces", json=body)
        assert (answer.status_code, answer.json()) == (200, {})
    pieces = [event for event in (await events(gateway_settings)).values() if event["span_id"] == root["spanId"]]
    assert len(pieces) > 1
    assert {f"large.{n}" for n in range(3)} <= {name for piece in pieces for name in piece["attributes"]}


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"\xff\xff", PROTOBUF, 400),
        (b"[]", {"Content-Type": "application/json"}, 400),
        (b"{", {"Content-Type": "application/json"}, 400),
        (b"no gzip", {**PROTOBUF, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(b"{}", mtime=0)[:-9], {**PROTOBUF, "Content-Encoding": "gzip"}, 400),
        (b"", {**PROTOBUF, "Content-Encoding": "br"}, 400),
        (gzip.compress(b"x" * 20_000_000, mtime=0), {**PROTOBUF, "Content-Encoding": "gzip"}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 415),
    ],
)
async def test_what_can_t_be_read_is_refused_as_otlp_says(
    guarded: Running, tokens: Tokens, content: bytes, headers: dict[str, str], status: int
) -> None:
    async with client(guarded.url, tokens.acme) as http:
        answer = await http.post("/v1/traces", content=content, headers=headers)
        assert answer.status_code == status
        if headers == PROTOBUF:
            told = ExportTraceServiceResponse().partial_success.__class__.FromString(answer.content)
            assert (told.rejected_spans, bool(told.error_message)) == (3, True), "a Status: code, message"
        elif "application/json" in headers["Content-Type"]:
            assert answer.json()["code"] == 3
    async with client(guarded.url, tokens.reader) as http:
        assert (await http.post("/v1/traces", content=b"", headers=PROTOBUF)).status_code == 403


async def test_ids_of_zeros_are_none_and_any_service_has_a_name(
    guarded: Running, gateway_settings: Settings, tokens: Tokens
) -> None:
    body = requests_of("pydantic-ai")[0]["body"]
    [about] = body["resourceSpans"]
    [first, *_] = about["scopeSpans"][0]["spans"]
    about["resource"] = {"attributes": [{"key": "service.name", "value": {"stringValue": "half \ud83d"}}]}
    about["scopeSpans"][0]["spans"] = [{**first, "traceId": "0" * 32}, {**first, "parentSpanId": "0" * 16}]
    async with client(guarded.url, tokens.acme) as http:
        headers = {"Content-Type": "application/json"}
        answer = await http.post("/v1/traces", content=json.dumps(body), headers=headers)
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
        log = {"traceId": "0" * 32, "spanId": "0" * 16, "timeUnixNano": "1"}
        logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{**log, "eventName": "gen_ai.choice"}, log]}]}]}
        told = (await http.post("/v1/logs", json=logs)).json()["partialSuccess"]
        assert (told["rejectedLogRecords"], "needs the ids" in told["errorMessage"]) == ("1", True)
    records = await read_all(gateway_settings, EVENTS)  # type: ignore[attr-defined]
    [envelope] = [decode(record.value) for record in records]
    assert (envelope["agent_id"], envelope["events"][0]["parent_id"]) == ("half \\ud83d", "")
