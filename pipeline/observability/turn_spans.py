"""Make the span of a turn record, with the attributes of OpenTelemetry's conventions. Pure.

An agent's turn is one span, from its first event to its last, linked to the publisher's span in which it took place.
Trace id and span id are derived from the tenant and the turn, so a replay makes the same span again. It has no content
of messages.

Generative AI: https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-agent-spans.md
Messaging: https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from pipeline.observability.provider_names import provider_name
from pipeline.turns.asides import is_aside
from pipeline.turns.column_text import column_text
from pipeline.turns.thread_document import agent_configs, interruption, span
from pipeline.turns.tokens import COUNTS, counts
from topics.json_text import objects, present
from topics.turn_record import TurnRecord
from turnmill.wire import traceparent
from turnmill.wire.traceparent import TraceParent

OPERATION: Final = "invoke_agent"
CANCELLED: Final = "user_cancelled"  # the reason of interruptions that are no failures
MAX_REASONS: Final = 100
MAX_TIME_MS: Final = 2**63 // 10**6 - 1  # epoch ms; the latest time of a span, which has nanoseconds in 64 bits
# The conventions' names of counts; all others are `turnmill.usage.…`.
NAMED: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "thinking_tokens": "gen_ai.usage.reasoning.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
}
USAGE: Final = {name: NAMED.get(name, f"turnmill.usage.{name}") for name in COUNTS if name != "total_tokens"}

Attribute = str | int | float | list[str]


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """The span of a turn. `start`, `end`: epoch ms; `link`: the publisher's span; `error`: why it failed, if it did."""

    name: str
    trace_id: int
    span_id: int
    start: int
    end: int
    attributes: dict[str, Attribute]
    link: TraceParent | None
    error: str | None


def turn_span(record: TurnRecord) -> TurnSpan | None:
    """Return the span of an agent's turn; None for any other record, or an imported one."""
    turn = record["turn"]
    if turn is None or turn.get("turn_type") != "agent" or record.get("imported"):
        return None
    start, end = (min(max(at, 0), MAX_TIME_MS) for at in span(record))
    reason = interruption(record)
    failed = record["status"] != "complete" and reason != CANCELLED
    attributes = present(_attributes(record, turn))
    if failed:
        attributes["error.type"] = str(reason or "interrupted")
    tenant = record.get("tenant")
    whose = f"{record['turn_id']}/{tenant}" if tenant else record["turn_id"]  # two tenants may have the same turn_id
    facts = (whose, record["status"], record["revision"], record.get("events", 0))
    digest = sha256("/".join(map(str, facts)).encode("utf-8", "backslashreplace")).digest()
    return TurnSpan(
        name=_bounded(f"{OPERATION} {attributes['gen_ai.agent.name']}"),
        trace_id=int.from_bytes(sha256(whose.encode("utf-8", "backslashreplace")).digest()[:16]) or 1,
        span_id=int.from_bytes(digest[:8]) or 1,
        start=start,
        end=max(start, end),
        attributes={name: _bounded(value) for name, value in attributes.items()},
        link=traceparent.parse(record.get("traceparent")),
        error=_bounded(attributes.get("error.type")),
    )


def _attributes(record: TurnRecord, turn: Mapping[str, Any]) -> dict[str, Any]:
    agent_config = next((config for config in agent_configs(record) if config["agent_id"] == record["agent_id"]), {})
    said = objects(turn.get("messages"))
    responses = [message for message in said if message.get("message_type") == "response" and not is_aside(message)]
    first: Mapping[str, Any] = responses[0] if responses else {}
    used = counts(turn.get("total_usage"))
    reasons = [_bounded(reason) for message in responses if isinstance(reason := message.get("finish_reason"), str)]
    first_chunk_ms = next(iter(record.get("timings") or [{}])).get("ttft_ms")
    parent = record.get("parent") or {}
    provider = _text(first.get("provider_name") or agent_config.get("provider_name"))
    return {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.agent.id": record["agent_id"],
        "gen_ai.agent.name": _text(agent_config.get("agent_name")) or record["agent_id"],
        "gen_ai.conversation.id": record["thread_id"],
        "gen_ai.provider.name": provider and provider_name(provider),
        "gen_ai.request.model": _text(first.get("model_name") or agent_config.get("model_name")),
        "gen_ai.response.finish_reasons": reasons[:MAX_REASONS] or None,
        "gen_ai.response.time_to_first_chunk": None if first_chunk_ms is None else first_chunk_ms / 1000,
        **{attribute: used.get(name) for name, attribute in USAGE.items()},
        "turnmill.run.id": record["run_id"],
        "turnmill.turn.id": record["turn_id"],
        "turnmill.turn.status": record["status"],
        "turnmill.turn.interruption": _text(interruption(record)),
        "turnmill.turn.events": record.get("events", 0),
        "turnmill.turn.responses": len(responses),
        "turnmill.turn.revision": record["revision"],
        "turnmill.dialect": record.get("dialect"),
        "turnmill.tenant": record.get("tenant"),
        "turnmill.parent.run.id": parent.get("run_id"),
    }


def _bounded(value: Any) -> Any:
    """Return a text as valid UTF-8 of a bounded length; return any other value unchanged."""
    return column_text(value) if isinstance(value, str) else value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
