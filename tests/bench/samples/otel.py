"""A run as spans of OpenTelemetry, for benchmarks."""

from collections.abc import Sequence

from topics.json_text import Fields, dumps

TRACE = "0af7651916cd43dd8448eb211c80319c"
AT = 1_795_799_670_000_000_000  # ns


def span(number: int, name: str, parent: int = 0, **attributes: object) -> Fields:
    """A span of `number` ms, as the gateway makes it of OTLP."""
    ids = {"trace_id": TRACE, "span_id": f"{number:016x}", "parent_id": f"{parent:016x}" if parent else ""}
    told = {key.replace("__", "."): value for key, value in attributes.items()}
    times = {
        "start": AT + (number if parent else 0) * 1_000_000,
        "end": AT + (number + 1 if parent else 99) * 1_000_000,
    }
    about = {"scope": "pydantic-ai", "scope_version": "2.68.0", "resource": {"service.name": "weather"}}
    rest = {"status": {"code": 0, "message": ""}, "attributes": told, "events": [], "dropped_attributes": 0}
    return {"type": "span", **ids, "name": name, **times, **rest, **about}


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas in a single span, and the span of its agent."""
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "".join(deltas)}], "finish_reason": "stop"}]
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    call = {
        "gen_ai__operation__name": "chat",
        "gen_ai__input__messages": dumps(asked),
        "gen_ai__output__messages": dumps(said),
        "gen_ai__usage__input_tokens": 12,
        "gen_ai__usage__output_tokens": len(deltas),
        "gen_ai__response__model": "scripted-2026-01-01",
        "gen_ai__response__finish_reasons": ["stop"],
    }
    return [
        span(2, "chat scripted", 1, **call),
        span(1, "invoke_agent weather", gen_ai__operation__name="invoke_agent"),
    ]
