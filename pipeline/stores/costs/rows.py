"""Conversion of a stored turn to its usage rows, a row per response: the source of truth for billing. Pure.

Rows are derived from the turn alone and replaced with it, so a replay can't count twice. All figures can be summed over
any rows: those of the whole turn (`turns`, `interrupted`, `errors`) are counted on the row of its last response.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipeline.policies.prices import NONE, Prices
from pipeline.stores.costs.prices import STREAM, Cost, cost_of
from pipeline.stores.database.keys import key_of
from pipeline.turns.asides import PURPOSE
from pipeline.turns.column_text import column_text
from pipeline.turns.partial_turns import PARTIAL, with_partial
from pipeline.turns.requests import request_of
from pipeline.turns.thread_document import agent_configs, interruption, span
from pipeline.turns.times import bounded, epoch_ms
from pipeline.turns.tokens import COST, COUNTS, SUMMED_CALLS, counts, tier_of
from topics import json_text
from topics.json_text import objects
from topics.turn_record import TurnRecord

ERROR = "error"  # the interruption was caused by the agent's failure, not by the user or the network
ESTIMATE: Final = "estimate by "  # followed by the source of the price of an estimate
IMPORT: Final = "import"  # the origin of imported usage
KINDS_OF_COST: Final = ("told", "computed", "estimated")  # by the stream or provider, by prices, by an assumption
TOLD, COMPUTED, ESTIMATED = range(3)  # their indices, as stored
DIFFERS: Final = 100  # a told and a computed cost differ, if by more than a hundredth of what was told
Row = dict[str, Any]
# The row of a response whose figures are all unknown. Each row starts as a copy of it: copying is faster than building.
EMPTY: Final[Row] = {
    **dict.fromkeys(("position", "agent_id", "tenant", "model", "provider", "finish_reason", "request", "origin")),
    **dict.fromkeys(("at", "requests", "turns", "interrupted", "errors", "ttft_ms", "duration_ms")),
    **dict.fromkeys(("purpose", "service_tier", "summed", "cost_nano_usd", "cost_kind", "computed_nano_usd")),
    **dict.fromkeys(("price_source", "estimated_tokens", "estimated_nano_usd", *COUNTS)),
    **dict.fromkeys(("turns", "interrupted", "errors"), 0),
}


def usage_rows(record: TurnRecord, prices: Prices = NONE) -> list[Row]:
    """Return a row per response in order, and another for tokens that only the turn's total includes.

    `prices`: the operator's, which are used before those of the package.

    Such tokens belong to responses that were cut off and not kept, or to wires that report only a total. Their row has
    `requests` 0; what is known of a response that was cut off is a row of its own. An agent's turn without a kept
    response has such a row even without tokens. Such a row also has the estimate for a turn that broke off before its
    usage was reported.
    """
    turn = record["turn"] or {}
    if turn.get("turn_type") != "agent":
        return []
    everything = [
        message
        for message in objects((with_partial(turn, billed=True) if PARTIAL in turn else turn).get("messages"))
        if message.get("message_type") == "response"
    ]
    responses = [message for message in everything if PARTIAL not in message]
    timings: list[Mapping[str, int | None]] = [*record.get("timings", []), *({} for _ in responses)]
    usages = [_by_model(message) for message in responses]
    rows = [
        _row(record, number, {**message, **named} if named else message, usage, counts(usage), timing)
        for number, (message, [(named, usage), *_], timing) in enumerate(zip(responses, usages, timings, strict=False))
    ]
    for message, (_, *others) in zip(responses, usages, strict=True):
        rows += [
            _row(record, len(rows) + number, {**message, **named}, usage, counts(usage), {}) | {"requests": 0}
            for number, (named, usage) in enumerate(others)
        ]
    total = counts(turn.get("total_usage"))
    rest = {**total}
    for row in rows:
        for name in total:
            rest[name] -= row[name] or 0
    for message in everything if len(everything) > len(responses) else ():
        known = counts(message.get("usage")) if PARTIAL in message else {}
        if known and all(known[name] <= rest.get(name, 0) for name in known if name != COST or COST in total):
            rows.append(_row(record, len(rows), message, message["usage"], known, {}) | _at_end(record))
            rest = {name: count - known.get(name, 0) for name, count in rest.items()}
    rest = {name: value for name, value in rest.items() if value > 0}
    cut_off = record["status"] != "complete"
    guessed = estimated(turn) if cut_off and not rest and COST not in total else None
    if rest or guessed or not rows:
        answers = [message for message in everything if PURPOSE not in message]
        last = answers[-1] if answers else {}
        tier = tier_of(turn.get("total_usage")) or tier_of(last.get("usage"))
        untold = sum(not counts(message.get("usage")) for message in answers)
        usage = {"service_tier": tier, SUMMED_CALLS: len(answers) > 1 and untold != 1}
        rows.append(_row(record, len(rows), {**last, "finish_reason": None}, usage, rest, {}) | _at_end(record))
    failed = cut_off and interruption(record) == ERROR
    last_answer = max((n for n, message in enumerate(responses) if PURPOSE not in message), default=0)
    rows[last_answer] |= {"turns": 1, "interrupted": int(cut_off), "errors": int(failed)}
    _price(rows, prices, whole=COST in total)
    if guessed is not None:
        last_row = rows[-1]
        last_row["estimated_tokens"] = sum(guessed.values())
        cost = cost_of({**last_row, **guessed}, prices)
        if cost.nano_usd is not None:
            last_row["estimated_nano_usd"], last_row["price_source"] = cost.nano_usd, f"{ESTIMATE}{cost.source}"
    return rows


def _at_end(record: TurnRecord) -> Row:
    """Return what the rows of tokens have that belong to no response of the turn."""
    return {"requests": 0, "at": span(record)[1]}


def _by_model(message: Mapping[str, Any]) -> list[tuple[dict[str, str], Mapping[str, Any]]]:
    """Return the usage of each model of a response, with the names of model and provider where there are several."""
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return [({}, {})]
    names = {"model_name": "model", "provider_name": "provider"}
    return [
        ({name: entry[key] for name, key in names.items() if isinstance(entry.get(key), str)}, entry)
        for entry in objects(usage.get("models"))
    ] or [({}, usage)]


def _price(rows: Sequence[Row], prices: Prices, *, whole: bool) -> None:
    """Price the rows; `whole`: the stream reported the cost of the turn, which the rows' costs add up to."""
    computed = [cost_of(row, prices) for row in rows]
    for row, cost in zip(rows, computed, strict=True):
        if row["cost_nano_usd"] is not None:
            row["cost_kind"], row["price_source"] = TOLD, STREAM
            row["computed_nano_usd"] = None if whole else _differing(row["cost_nano_usd"], [cost])
        elif not whole and cost.nano_usd is not None:
            kind = ESTIMATED if cost.estimated else COMPUTED
            row |= {"cost_nano_usd": cost.nano_usd, "cost_kind": kind, "price_source": cost.source}
        elif not whole and row["total_tokens"]:
            row["price_source"] = cost.source
    if whole and (told := sum(row["cost_nano_usd"] or 0 for row in rows)):
        last = next(row for row in reversed(rows) if row["cost_nano_usd"])
        priced = [cost for cost, row in zip(computed, rows, strict=True) if row["total_tokens"]]
        last["computed_nano_usd"] = _differing(told, priced)


def _differing(told: int, computed: Sequence[Cost]) -> int | None:
    """Return the computed cost, if it differs from what was told; None also where a price is unknown or a guess."""
    known = [cost.nano_usd for cost in computed if cost.nano_usd is not None and not cost.estimated]
    if len(known) < len(computed) or not known:
        return None
    return sum(known) if abs(sum(known) - told) * DIFFERS > told else None


def _row(
    record: TurnRecord,
    number: int,
    message: Mapping[str, Any],
    usage: Mapping[str, Any],
    known: Mapping[str, int],
    timing: Mapping[str, int | None],
) -> Row:
    config = next((a for a in agent_configs(record) if a["agent_id"] == record["agent_id"]), {})
    at = epoch_ms(message.get("timestamp"))
    ttft_ms, duration_ms = timing.get("ttft_ms"), timing.get("duration_ms")
    return {
        **EMPTY,
        "position": number,
        "agent_id": column_text(message.get("agent_id") or record["agent_id"]),
        "tenant": column_text(key_of(record).tenant),
        "model": column_text(message.get("model_name") or config.get("model_name")),
        "provider": column_text(message.get("provider_name") or config.get("provider_name")),
        "finish_reason": column_text(message.get("finish_reason")),
        "request": request_of(message),
        "origin": IMPORT if record.get("imported") else "",
        "at": span(record)[0] if at is None else at,
        "requests": 1,
        "ttft_ms": None if ttft_ms is None else bounded(ttft_ms),
        "duration_ms": None if duration_ms is None else bounded(duration_ms),
        "purpose": column_text(message[PURPOSE]) if PURPOSE in message else "",
        "service_tier": column_text(tier) if (tier := tier_of(usage)) else "",
        "summed": usage.get(SUMMED_CALLS) is True,
        **known,
    }


CHARACTERS: Final = 4  # per token


def estimated(turn: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the tokens that an interrupted turn's calls without usage read and wrote; None where there are none."""
    read = written = context = 0
    for message in objects(with_partial({**turn}).get("messages")):
        if PURPOSE in message:
            continue
        known, size = counts(message.get("usage")), -(-_characters(message.get("parts")) // CHARACTERS)
        if known.keys() & {"input_tokens", "output_tokens"}:
            context = known.get("input_tokens", 0) + known.get("output_tokens", 0)
            continue
        if message.get("message_type") == "response":
            read, written = read + context, written + size
        context += size
    return {"input_tokens": read, "output_tokens": written} if written else None


def _characters(parts: Any) -> int:
    values = [part.get(name) for part in objects(parts) for name in ("content", "args")]
    return sum(len(value if type(value) is str else json_text.dumps(value)) for value in values if value is not None)
