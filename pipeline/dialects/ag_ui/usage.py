"""Tokens in AG-UI streams: of the run in its last event, and as servers write them of each call."""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.dialects.ag_ui.stream import Item, Stream
from pipeline.dialects.wire_values import is_number, text_or_none
from pipeline.turns import tokens
from topics.json_text import Fields, objects, present

RUNNING: Final = ("input_token_count", "output_token_count")  # of CUSTOM `usage`
# The counts that Agno 3.1 writes for a call; it writes 0 where the provider has sent no count.
AGNO: Final = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens")
APART: Final = frozenset({"Anthropic", "AwsBedrock", "AzureFoundry", "VertexAI"})  # Agno's input is without caches


def add_of_call(builder: Builder, stream: Stream, entries: Any, tanstack: Fields) -> None:
    """Add tokens and end of the newest call: TanStack writes RUN_FINISHED after each, with those of that alone.

    `entries`: a list over HTTP, the counts themselves in what `chat()` yields.
    """
    newest, usages = stream.newest(), objects([entries] if isinstance(entries, dict) else entries)
    model, reason = tanstack.get("model"), tanstack.get("finishReason")
    if newest is not None and usages:
        newest.usage = usages[0]
    if newest is not None and isinstance(reason, str):
        newest.ended = reason
    if isinstance(model, str):
        builder.context.model_name = builder.context.model_name or model


def add_growth(stream: Stream, value: Any) -> None:
    """Give the newest call what Microsoft's Agent Framework has added to the tokens of the run."""
    newest = stream.newest()
    if newest is None or not isinstance(value, dict) or value.keys().isdisjoint(RUNNING):
        return
    told = tokens.normal(value)
    before = tokens.total(item.usage for item in stream.items if item.usage is not None and item is not newest) or {}
    grown = {name: told[name] - before.get(name, 0) for name in told if is_number(told[name])}
    newest.usage = told if any(count < 0 for count in grown.values()) else grown


def add_of_run(builder: Builder, stream: Stream, entries: Any) -> None:
    """Add the run's tokens, an entry for each model: to the last response, unless responses have their own.

    After results of tools, an entry is the sum of several calls.
    """
    several = any(item.role == "tool" and not item.given for item in stream.items)
    summed = {tokens.SUMMED_CALLS: True} if several else {}
    usages = [present(entry) | summed for entry in objects(entries)]
    total = tokens.total(map(tokens.normal, usages))
    if not usages or total is None:
        return
    newest = stream.newest()
    if any(item.usage is not None for item in stream.items):
        builder.total_usage = total
    elif newest is None:
        builder.total_usage = total
        builder.telemetry.append((builder.at, "data-sys-usage", total))
    else:
        newest.usage = usages[0] if len(usages) == 1 else {**total, "models": usages}
    if len(usages) == 1:
        model, provider = usages[0].get("model"), usages[0].get("provider")
        builder.context.model_name = builder.context.model_name or (model if isinstance(model, str) else None)
        if isinstance(provider, str):
            builder.context.provider_name = builder.context.provider_name or provider


def add_of_agno(builder: Builder, event: Fields) -> None:
    """Add the tokens of a call that has ended, from Agno's RAW event; other such events repeat what is known.

    The first call since the newest results is that of the answer; another is that of an agent whom it asked.
    """
    call = event.get("event")
    if not isinstance(call, dict) or not str(call.get("event")).endswith("ModelRequestCompleted"):
        return
    usage = {name: call[name] for name in AGNO if is_number(call.get(name)) and call[name] > 0}
    if not usage:
        return
    model, provider = call.get("model"), call.get("model_provider")
    if provider in APART:
        cached = usage.get("cache_read_tokens", 0) + usage.get("cache_write_tokens", 0)
        usage["input_tokens"] = usage.get("input_tokens", 0) + cached
    names = {"model": text_or_none(model), "provider": provider.lower() if isinstance(provider, str) else None}
    stream: Stream = builder.scratch["stream"]
    newest = stream.newest()
    results = [number for number, item in enumerate(stream.items) if item.role == "tool"]
    answer = stream.items[results[-1] + 1 :] if results else stream.items
    if call.get("nested_depth") or any(item.usage is not None for item in answer):
        builder.beside("sub-agent", usage, **names)
        return
    context = builder.context
    context.model_name = context.model_name or names.get("model")
    context.provider_name = context.provider_name or names.get("provider")
    if newest is not None and newest in answer:
        newest.usage = usage
    else:
        stream.items.append(Item("assistant", "", builder.at, builder.at, usage=usage))
