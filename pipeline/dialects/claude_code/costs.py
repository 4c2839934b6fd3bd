"""Costs of Claude Code's calls, from `total_cost_usd` and `modelUsage` in its `result` lines.

Both are sums since the process began; `turnmill.sums` has those of before the run. They include calls that no line
shows: titles, compactions, small models. What a model has used above the responses of the run becomes a response beside
the answer, and the model's cost is shared by its responses in proportion to what their tokens cost.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message
from pipeline.dialects.claude_code.session import CACHE_READ, WRITTEN, Session, normal
from pipeline.dialects.wire_values import is_number
from pipeline.turns import tokens
from topics.json_text import Fields, object_of

Sums = dict[str, Any]  # a model's counts and cost, as numbers by the names of `modelUsage`

COST: Final = "costUSD"
NAMES: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": CACHE_READ,
    "cacheCreationInputTokens": WRITTEN,
    "webSearchRequests": "web_searches",
}
# The prices of Claude's tokens, of each model, relative to that of fresh input; the 1 h writes are part of the writes.
WEIGHTS: Final = {"cache_read_tokens": -0.9, "cache_write_tokens": 0.25, "cache_write_1h_tokens": 0.75}
OUTPUT_WEIGHT: Final = 5.0


def tell(builder: Builder, session: Session) -> None:
    """Set the costs of the run's responses, whose tokens are final, and add the calls beside them."""
    cost, used = _added([session.before, *session.results])
    if builder.total_usage is not None:  # the run has no response
        builder.total_usage |= {"cost_usd": cost} if cost else {}
        return
    usages: dict[str, list[Fields]] = {name: [] for name in used}
    known, unnamed = session.before is not None or session.hidden, not used
    for message in _responses(session):
        name = _entry_of(used, message.fields.get("model_name"))
        unnamed = unnamed or name is None
        usages.setdefault(name or "", []).append(message.fields["usage"])
    if unnamed:
        said = [usage for some in usages.values() for usage in some]
        largest = max(used.values(), key=lambda sums: _rest(sums, ()).get("input_tokens", 0), default={})
        if known or "input_tokens" not in _rest(largest, said):
            _share(cost, said)
        return
    rests = {name: _rest(sums, usages[name]) for name, sums in used.items()}
    if not known and any(usages[name] and "input_tokens" in rest for name, rest in rests.items()):
        return  # the process has served runs before this one, whose part is not known
    for name, rest in rests.items():
        if rest:
            provider = builder.context.provider_name or "anthropic"
            builder.beside("background", rest, model=_plain(name), provider=provider)
            usages[name].append(rest)
        _share(used[name].get(COST, 0.0), usages[name])


def _responses(session: Session) -> list[Message]:
    """Return the responses with tokens, also those of sub-agents, whose turns are over."""
    messages: list[Message] = []
    for thread in session.threads.values():
        ended = (message for turn in thread.builder.agent_turns for message in (*turn.messages, *turn.asides))
        said = (*ended, *thread.builder.messages, *thread.builder.asides)
        messages += (message for message in said if message.kind == "response" and "usage" in message.fields)
    return messages


def _added(results: Iterable[Fields | None]) -> tuple[float, dict[str, Sums]]:
    """Return what lines have added to the sums of the first, in all, and by model. None: the sums began anew."""
    cost, before_cost = 0.0, 0.0
    used: dict[str, Sums] = {}
    before: dict[str, Sums] = {}
    for number, result in enumerate(results):
        now = _numbers(result, ("total_cost_usd",)).get("total_cost_usd", 0.0) if result else 0.0
        models = result.get("modelUsage") if result else None
        if result is None or now < before_cost:
            before_cost, before = 0.0, {}
        cost, before_cost = cost + now - before_cost, now
        for name, entry in models.items() if isinstance(models, dict) else ():
            sums = _numbers(entry, (*NAMES, COST))
            grown, earlier = used.setdefault(name, {}), before.get(name, {})
            for key in {**sums, **earlier}:
                grown[key] = grown.get(key, 0) + sums.get(key, 0) - earlier.get(key, 0)
            before[name] = sums
        if number == 0:
            cost, used = 0.0, {}
    return cost, used


def _numbers(entry: Any, names: Iterable[str]) -> Sums:
    known = object_of(entry)
    return {name: known[name] for name in names if is_number(known.get(name))}


def _rest(sums: Sums, usages: Sequence[Fields]) -> Fields:
    """Return the counts of a model that these responses do not have."""
    known = normal({api: sums.get(name, 0) for name, api in NAMES.items()})
    known["web_searches"] = sums.get("webSearchRequests", 0)
    spoken = tokens.total(usages) or {}
    rest = {name: count - spoken.get(name, 0) for name, count in known.items()}
    return {name: count for name, count in rest.items() if count > 0}


def _share(cost: float, usages: Sequence[Fields]) -> None:
    """Share a cost; 0 means that it is not known."""
    weights = [_weight(usage) for usage in usages]
    if cost <= 0 or not sum(weights):
        return
    for usage, weight in zip(usages, weights, strict=True):
        usage.pop(tokens.SUMMED_CALLS, None)
        usage["cost_usd"] = round(cost * weight / sum(weights), 9)


def _weight(usage: Fields) -> float:
    weight: float = usage.get("input_tokens", 0) + OUTPUT_WEIGHT * usage.get("output_tokens", 0)
    for name, factor in WEIGHTS.items():
        weight += usage.get(name, 0) * factor
    return max(0.0, weight)


def _entry_of(used: Iterable[str], model: Any) -> str | None:
    """Return the entry of a model: its name may lack the date, and may name the size of the context."""
    if not isinstance(model, str):
        return None
    return next((name for name in used if model.startswith(_plain(name)) or _plain(name).startswith(model)), None)


def _plain(name: str) -> str:
    return name.partition("[")[0]
