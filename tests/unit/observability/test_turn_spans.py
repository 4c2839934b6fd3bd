"""A turn's span: what it says, that it says it again at a replay, and that hostile turns cost nothing but theirs."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, messaging_attributes

from pipeline.assembly.offline import assemble
from pipeline.devbroker.ports import free_ports
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.observability.provider_names import NAMES, SPELLINGS, provider_name
from pipeline.observability.turn_spans import TurnSpan, turn_span
from pipeline.observability.turn_traces import TurnTraces
from pipeline.settings import load
from pipeline.worker.assemble.role import _traces
from tests.support.collector import attributes, collecting
from tests.support.toy import START, THREAD, TOYS, envelope, text
from turnmill.errors import CallerError
from turnmill.extras import install

PAGE = Path(__file__).parents[3] / "docs" / "observability.md"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
INFO = {"agent_name": "Weather", "model_name": "gpt-5", "provider_name": "openai", "traceparent": PARENT}
USAGE = {"inputTokens": 50, "outputTokens": 15, "reasoningTokens": 5, "cachedInputTokens": 20, "cacheWriteTokens": 3}


def turns(end: str | None = "complete", run: Any = None, events: Any = None, **more: Any) -> list[Any]:
    said = events or [*text("It rains."), {"type": "result", "usage": USAGE}]
    return assemble(TOYS["toy"], [envelope(0, said, run=INFO if run is None else run, end=end, **more)])[0]


def the_span(*args: Any, **more: Any) -> TurnSpan:
    found = turn_span(turns(*args, **more)[-1])
    assert found is not None
    return found


def test_counts_without_a_name_in_the_conventions_have_one_of_turnmills() -> None:
    """The conventions name input, output, reasoning and the two caches: gen-ai-agent-spans.md."""
    usage = {**USAGE, "totalTokens": 65, "cacheWrite1h": 2, "input_audio_tokens": 4, "web_searches": 1}
    used = {
        name: count
        for name, count in the_span(events=[*text("It rains."), {"type": "result", "usage": usage}]).attributes.items()
        if ".usage." in name
    }
    assert {name: count for name, count in used.items() if name.startswith("turnmill")} == {
        "turnmill.usage.cache_write_1h_tokens": 2,
        "turnmill.usage.input_audio_tokens": 4,
        "turnmill.usage.web_searches": 1,
    }
    assert len(used) == 8


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("google-gla", "gcp.gemini"),  # Pydantic AI
        ("google-vertex", "gcp.vertex_ai"),
        ("google", "gcp.gen_ai"),  # either of them
        ("bedrock", "aws.bedrock"),
        ("grok", "x_ai"),
        ("mistral", "mistral_ai"),
        ("openai.responses", "openai"),  # AI SDK
        ("azure-openai.chat", "azure.ai.openai"),
        ("amazon-bedrock", "aws.bedrock"),
        ("google.vertex.chat", "gcp.vertex_ai"),
        ("google.generative-ai", "gcp.gemini"),
        ("xai.chat", "x_ai"),
        ("google_genai", "gcp.gemini"),  # LangChain
        ("google_vertexai", "gcp.vertex_ai"),
        ("amazon_bedrock", "aws.bedrock"),
        ("mistralai", "mistral_ai"),
        ("vertex_ai", "gcp.vertex_ai"),  # LiteLLM
        ("watsonx", "ibm.watsonx.ai"),
        ("azure_ai", "azure.ai.inference"),
        ("google-generative-ai", "gcp.gemini"),  # pi
        ("azure-openai-responses", "azure.ai.openai"),
        ("az.ai.openai", "azure.ai.openai"),  # the conventions, before
        ("OpenAI", "openai"),
        ("Our own", "Our own"),  # as the conventions have it: a custom value
        ("openrouter", "openrouter"),
    ],
)
def test_a_provider_has_the_conventions_name(written: str, name: str) -> None:
    assert the_span(run={**INFO, "provider_name": written}).attributes["gen_ai.provider.name"] == name


def test_all_of_the_conventions_providers_are_known() -> None:
    values = {member.value for member in gen_ai_attributes.GenAiProviderNameValues}
    assert set(SPELLINGS) == values
    assert {value: provider_name(value) for value in values} == {value: value for value in values}
    assert len(NAMES) == sum(len(spellings.split()) for spellings in SPELLINGS.values())  # each means one provider


def test_values_of_other_closed_sets_are_the_conventions() -> None:
    with collecting() as collector:
        traces = TurnTraces(collector.endpoint, "events", Metrics())
        traces(turns(), 3)
        traces.close()
    said = attributes(collector.spans[0])
    for name, values in (
        ("gen_ai.operation.name", gen_ai_attributes.GenAiOperationNameValues),
        ("messaging.system", messaging_attributes.MessagingSystemValues),
        ("messaging.operation.type", messaging_attributes.MessagingOperationTypeValues),
    ):
        assert said[name] in {value.value for value in values}


def test_what_a_span_says() -> None:
    span = the_span(tenant="acme", run={**INFO, "parent_run_id": "boss"})
    assert (span.name, span.start, span.end, span.error) == ("invoke_agent Weather", START, START + 100, None)
    assert span.link is not None
    assert span.link.text == PARENT
    assert span.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": "a",
        "gen_ai.agent.name": "Weather",
        "gen_ai.conversation.id": THREAD,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.0,
        "gen_ai.usage.input_tokens": 50,
        "gen_ai.usage.output_tokens": 15,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 20,
        "gen_ai.usage.cache_creation.input_tokens": 3,
        "turnmill.run.id": "r",
        "turnmill.turn.id": turns()[-1]["turn_id"],
        "turnmill.turn.status": "complete",
        "turnmill.turn.events": 2,
        "turnmill.turn.responses": 1,
        "turnmill.turn.revision": 0,
        "turnmill.dialect": "toy",
        "turnmill.tenant": "acme",
        "turnmill.parent.run.id": "boss",
    }


@pytest.mark.parametrize(
    ("reason", "error"),
    [("error", "error"), ("network_failure", "network_failure"), ("timeout", "timeout"), ("user_cancelled", None)],
)
def test_an_interrupted_turn_is_an_error_unless_its_user_cancelled_it(reason: str, error: str | None) -> None:
    (record,) = turns("aborted")
    assert record["turn"]["interruption"]["reason"] == "user_cancelled"
    record["turn"]["interruption"]["reason"] = reason
    span = turn_span(record)
    assert span is not None
    assert (span.error, span.attributes.get("error.type")) == (error, error)
    assert span.attributes["turnmill.turn.interruption"] == reason


def test_the_page_names_every_attribute() -> None:
    names = {*the_span(tenant="t", run={**INFO, "parent_run_id": "p"}).attributes, *the_span("error").attributes}
    page = PAGE.read_text("utf-8")
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_only_agents_turns_have_one() -> None:
    user, agent = turns(run={"request": "What's the weather?"})
    assert turn_span(user) is None
    assert turn_span({**agent, "turn": None}) is None
    found = turn_span(agent)
    assert found is not None
    assert found.link is None


def test_a_replay_gives_the_same_span_and_a_newer_revision_another_one_of_the_same_trace() -> None:
    (record,) = turns()
    first, again, newer = (turn_span(one) for one in (record, turns()[0], {**record, "revision": 1}))
    assert first == again
    assert first is not None
    assert newer is not None
    assert newer.trace_id == first.trace_id
    assert newer.span_id != first.span_id


def test_a_turn_of_the_same_id_of_another_tenant_is_in_another_trace() -> None:
    """Found by the review: a backend would have shown one tenant's span as another's, or in its trace."""
    mine, theirs, nobodys = (the_span(**more) for more in ({"tenant": "acme"}, {"tenant": "evil"}, {}))
    assert len({span.attributes["turnmill.turn.id"] for span in (mine, theirs, nobodys)}) == 1
    assert len({span.trace_id for span in (mine, theirs, nobodys)}) == 3
    assert len({span.span_id for span in (mine, theirs, nobodys)}) == 3


def test_nothing_of_what_was_said_is_in_it() -> None:
    (record,) = turns(events=[*text("a secret"), {"type": "note", "data": {"secret": 1}}])
    span = turn_span(record)
    assert span is not None
    assert "secret" not in repr(span)


def hostile(record: Any, **turn: Any) -> Any:
    return {**record, "turn": {**record["turn"], **turn}}


def test_the_collector_gets_them_whatever_else_there_is() -> None:
    """One turn that protobuf can't hold would take its whole batch with it."""
    (record,) = turns()
    far = hostile(record, started_at="9999-12-31T23:59:59Z", completed_at="0001-01-01T00:00:00Z")
    odd = hostile(record, messages=[7, {"message_type": "response", "finish_reason": "\ud800" * 9000}])
    usage = hostile(record, total_usage={"input_tokens": 2**70, "output_tokens": "many"})
    agents = {**record, "agents": [{"agent_id": "a", "agent_name": "\0\ud800" + "x" * 9000}, 7], "tenant": "\udfff"}
    broken = {**record, "turn": {"turn_type": "agent"}, "timings": [{"ttft_ms": "soon"}]}
    metrics = Metrics()
    with collecting(refused=1) as collector:
        traces = TurnTraces(collector.endpoint, "events", metrics)
        traces([far, odd, usage, agents, broken, record], 3)
        traces.close()
    assert (collector.paths, collector.services) == ({"/v1/traces"}, {"turnmill"})
    assert len(collector.spans) == 5
    span = collector.spans[-1]
    expected = turn_span(record)
    assert expected is not None
    assert (span.trace_id, span.span_id) == (expected.trace_id.to_bytes(16), expected.span_id.to_bytes(8))
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (START * 10**6, (START + 100) * 10**6)
    assert [link.trace_id.hex() for link in span.links] == [PARENT.split("-")[1]]
    assert (attributes(span)["messaging.destination.name"], attributes(span)["messaging.destination.partition.id"]) == (
        "events",
        "3",
    )
    counters = m.SPANS, m.SPANS_EXPORTED, m.SPANS_FAILED
    values = [metrics.registry.get_sample_value(metric.name) for metric in counters]
    assert values == [5, 5, 1]


def test_a_collector_that_is_away_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.observability.turn_traces.END_TIMEOUT", 0.2)
    metrics = Metrics()
    traces = TurnTraces(f"http://127.0.0.1:{free_ports(1)[0]}", "events", metrics)
    traces(turns() * 3000, 0)  # more than wait
    traces.close()
    values = [metrics.registry.get_sample_value(metric.name) for metric in (m.SPANS, m.SPANS_EXPORTED)]
    assert values == [3000, 0]


def test_what_opentelemetry_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    for ratio, count in (("1.0", 1), ("0.0", 0)):
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", ratio)
        with collecting() as collector:
            traces = TurnTraces(collector.endpoint + "/v1/traces", "events", Metrics())
            traces(turns(), 0)
            traces.close()
        assert len(collector.spans) == count
        if count:
            assert collector.services == {"ours"}
            assert {name.lower(): value for name, value in collector.headers.items()}[
                "authorization"
            ] == "Bearer s3cret"


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _traces(None, "events", Metrics()) is None
    assert load({"TURNMILL_OTLP_ENDPOINT": "http://collector:4318/"}).otlp_endpoint == "http://collector:4318"
    for wrong in ("collector:4318", "grpc://collector:4317", "http://", "http://collector?x=1"):
        with pytest.raises(CallerError, match="TURNMILL_OTLP_ENDPOINT: http://host:port"):
            load({"TURNMILL_OTLP_ENDPOINT": wrong})
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(CallerError, match=f"^TURNMILL_OTLP_ENDPOINT needs .*{re.escape(install('otlp'))}"):
        _traces("http://collector:4318", "events", Metrics())
