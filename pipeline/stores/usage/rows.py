"""The rows of `usage`: written with a turn, within the caller's transaction; priced again later; read for a thread."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, bindparam, select, update
from sqlalchemy import tuple_ as row_of
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.prices import Prices
from pipeline.stores.costs.prices import UNPRICED
from pipeline.stores.costs.rows import KINDS_OF_COST, usage_rows
from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.ids import INSERT, ids_of
from pipeline.stores.database.keys import UsageNames, thread_of, turn_text
from pipeline.stores.database.schema import price_sources, threads, turns, usage, usage_names, usage_tags
from pipeline.stores.database.sending import Call, certain, of_columns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import statements
from pipeline.stores.threads.labels import labels_in, names_of, uncounted
from pipeline.stores.threads.rows import record_of
from pipeline.stores.threads.summaries import StepUsage, TurnUsage
from pipeline.stores.threads.table_that_follows import PlacedTurn
from pipeline.stores.threads.write import lock
from pipeline.turns.requests import prompt_of
from pipeline.turns.tokens import COUNTS, NANO
from topics import json_text
from topics.thread_key import ThreadKey

OF_RESPONSE: Final = tuple(  # columns that a row contains unchanged
    column.name for column in usage.c if column.name not in ("turn", "thread", "names", "price_source")
)

values_of_response: Final = itemgetter(*OF_RESPONSE)


async def usage_calls(connection: AsyncConnection, placed: Sequence[PlacedTurn], _: object = None) -> list[Call]:
    """Return the call that adds the usage of these turns."""
    bodies = {name: body for turn in reversed(placed) for name, body in turn.rows.requests.items()}
    prompts = {name: prompt_of(body) for name, body in bodies.items()}
    of_turns, sources = [], set[str]()
    labels = {turn.id: known for turn in placed if (known := labels_in(turn.rows.record))}
    others = await uncounted(connection, {label for some in labels.values() for label in some}) if labels else ()
    for turn in placed:
        labelled = names_of(labels[turn.id], others) if turn.id in labels else ()
        for row in turn.rows.usage:
            prompt = prompts.get(row["request"])
            name = UsageNames(
                row["tenant"],
                row["model"],
                row["provider"],
                row["agent_id"],
                prompt,
                row["origin"],
                row["service_tier"],
                row["purpose"],
                *labelled,
            )
            of_turns.append((turn, name, row))
            if row["price_source"] is not None:
                sources.add(row["price_source"])
    if not of_turns:
        return []
    names = await ids_of(connection, UsageNames, map(itemgetter(1), of_turns))
    if labels:
        await _add_tags(connection, names)
    prices = await price_sources_of(connection, sources) if sources else {}
    columns: dict[str, Sequence[Any]] = {
        "turn": [turn.id for turn, _, _ in of_turns],
        "thread": [turn.thread for turn, _, _ in of_turns],
        "names": [names[name] for _, name, _ in of_turns],
        "price_source": [prices.get(row["price_source"]) for _, _, row in of_turns],
    }
    columns |= zip(OF_RESPONSE, zip(*(values_of_response(row) for _, _, row in of_turns), strict=True), strict=True)
    return [of_columns(connection.dialect.name, statements.ADD[usage], columns)]


async def _add_tags(connection: AsyncConnection, names: Mapping[UsageNames, int]) -> None:
    tagged = sorted((id_, name.tags) for name, id_ in names.items() if name.tags is not None)
    if rows := [{"names": id_, "tag": tag} for id_, tags in tagged for tag in json_text.loads(tags)]:
        await connection.execute(INSERT[connection.dialect.name](usage_tags).on_conflict_do_nothing(), rows)


async def price_sources_of(connection: AsyncConnection, wanted: Collection[str]) -> dict[str, int]:
    """Return the integers of these sources of prices; missing ones are added."""
    query = select(price_sources.c.source, price_sources.c.id)
    known = {row.source: row.id for row in await connection.execute(query)}
    if missing := sorted(set(wanted) - known.keys()):
        new = INSERT[connection.dialect.name](price_sources).on_conflict_do_nothing()
        await connection.execute(new, [{"source": source} for source in missing])
        known = {row.source: row.id for row in await connection.execute(query)}
    return known


BATCH_SIZE: Final = 200  # rows of a transaction
PLACE: Final = (usage.c.at, usage.c.turn, usage.c.position)  # the order in which rows are read, by the index of `at`
PRICED: Final = (
    *("cost_nano_usd", "cost_kind", "computed_nano_usd"),
    *("price_source", "estimated_tokens", "estimated_nano_usd"),
)


class Repriced(NamedTuple):
    """A row of usage whose cost or estimate changes: both in 10⁻⁹ US dollars, with the names of their prices."""

    model: str | None
    before: int | None
    source_before: str | None
    after: int | None
    source_after: str | None


async def reprice(store: ThreadStore, since: int, until: int, *, dry_run: bool) -> AsyncIterator[Repriced]:
    """Price a period's usage (epoch ms) again, except stream costs; yield changes. `dry_run` changes nothing."""
    last = since, -(2**63), 0
    while True:
        mine = select(*PLACE).where(usage.c.at >= last[0], usage.c.at < until, row_of(*PLACE) > row_of(*last))
        async with store.writing() as connection:
            await certain(connection)
            rows = (await connection.execute(mine.order_by(*PLACE).limit(BATCH_SIZE))).all()
            places = {(row.turn, row.position) for row in rows}
            changed = await _reprice(connection, places, store.prices, (since, until), dry_run=dry_run)
        for row in changed:
            yield row
        if len(rows) < BATCH_SIZE:
            return
        last = rows[-1].at, rows[-1].turn, rows[-1].position


async def _reprice(
    connection: AsyncConnection,
    places: Collection[tuple[int, int]],
    prices: Prices,
    within: tuple[int, int],
    *,
    dry_run: bool,
) -> list[Repriced]:
    """Price the rows at these places, as (turn, position), again, if their time is still within these (epoch ms)."""
    turns = sorted({turn for turn, _ in places})
    of = select(*statements.NAME).where(threads.c.id.in_(select(usage.c.thread).where(usage.c.turn.in_(turns))))
    if not dry_run:  # while no writer replaces a turn
        await lock(connection, {thread_of(row) for row in await connection.execute(of)})
    records = await connection.execute(statements.records_by_id(turns))
    fresh = {(id_, row["position"]): row for id_, text in records for row in usage_rows(record_of(text), prices)}
    query = select(usage, price_sources.c.source).outerjoin(price_sources, usage.c.price_source == price_sources.c.id)
    stored = (await connection.execute(query.where(usage.c.turn.in_(turns)))).mappings().all()
    known = {(row["turn"], row["position"]): {**row, "price_source": row["source"]} for row in stored}
    changes = {
        position: fresh[position]
        for position, row in known.items()
        if position in places
        and position in fresh
        and within[0] <= row["at"] < within[1]
        and any(row[name] != fresh[position][name] for name in PRICED)
    }
    repriced = [
        Repriced(row["model"], _cost(known[position]), known[position]["source"], _cost(row), row["price_source"])
        for position, row in changes.items()
    ]
    repriced = [row for row in repriced if (row.before, row.source_before) != (row.after, row.source_after)]
    if dry_run or not changes:
        return repriced
    sources = await price_sources_of(connection, {row["price_source"] for row in changes.values()} - {None})
    put = update(usage).where(usage.c.turn == bindparam("of_turn"), usage.c.position == bindparam("at_position"))
    values = [
        {name: row[name] for name in PRICED}
        | {"price_source": sources.get(row["price_source"]), "of_turn": turn, "at_position": position}
        for (turn, position), row in changes.items()
    ]
    await connection.execute(put.values({name: bindparam(name) for name in PRICED}), values)
    await connection.execute(statements.refresh_threads(sorted({known[change]["thread"] for change in changes})))
    return repriced


def _cost(row: Any) -> int | None:
    cost: int | None = row["cost_nano_usd"] if row["cost_nano_usd"] is not None else row["estimated_nano_usd"]
    return cost


async def turn_usage(store: ThreadStore, key: ThreadKey) -> tuple[dict[str, TurnUsage], TurnUsage]:
    """Return the usage of each turn of a thread that has any, by turn_id, and that of the thread."""
    names = (usage_names.c[name] for name in ("model", "service_tier", "purpose"))
    query = select(turns.c.turn_id, usage, *names, price_sources.c.source)
    query = query.join(turns, usage.c.turn == turns.c.id)
    query = query.outerjoin(price_sources, usage.c.price_source == price_sources.c.id)
    query = query.join(usage_names, usage.c.names == usage_names.c.id)
    query = query.where(turns.c.thread == statements.number_of(key))
    async with store.reading() as connection:
        await certain(connection)
        rows = (await connection.execute(query.order_by(usage.c.turn, usage.c.position))).all()

    def by_turn() -> tuple[dict[str, TurnUsage], TurnUsage]:
        groups = groupby(rows, lambda row: bytes(row.turn_id))
        return {turn_text(turn_id): used_by(list(some)) for turn_id, some in groups}, used_by(rows, steps=False)

    return await asyncio.to_thread(by_turn)


def used_by(rows: Sequence[Row[Any]], *, steps: bool = True) -> TurnUsage:
    """Return the usage of a turn's rows, which are in the order of its responses."""
    guessed = [row.estimated_nano_usd for row in rows if row.estimated_nano_usd is not None]
    return TurnUsage(
        **_used(rows),
        estimated_tokens=_sum(row.estimated_tokens for row in rows) or 0,
        estimated_cost_usd=_dollars(_sum(guessed)),
        ttft_ms=next((row.ttft_ms for row in rows if row.position == 0), None),
        steps=tuple(_step(row) for row in rows) if steps and len(rows) > 1 else (),
    )


def _step(row: Row[Any]) -> StepUsage:
    return StepUsage(
        **_used([row]),
        model=row.model,
        ttft_ms=row.ttft_ms,
        duration_ms=row.duration_ms,
        service_tier=row.service_tier or None,
        purpose=row.purpose or None,
    )


def _used(rows: Sequence[Row[Any]]) -> dict[str, Any]:
    """Return the fields of CallUsage: the sums of rows; a cost that is known of some only is the sum of these."""
    differ = [row for row in rows if row.computed_nano_usd is not None]
    kinds = {row.cost_kind for row in rows} - {None}
    sources = sorted({row.source for row in rows if row.source is not None})
    reasons = [source.removeprefix(UNPRICED) for source in sources if source.startswith(UNPRICED)]
    return {
        **{name: _sum(getattr(row, name) for row in rows) for name in COUNTS},
        "cost_usd": _dollars(_sum(row.cost_nano_usd for row in rows)),
        "cost_kind": KINDS_OF_COST[max(kinds)] if kinds else None,
        "cost_told_usd": _dollars(_sum(row.cost_nano_usd for row in differ)),
        "cost_computed_usd": _dollars(_sum(row.computed_nano_usd for row in differ)),
        "unpriced": "; ".join(reasons) or None,
        "prices": tuple(source for source in sources if not source.startswith(UNPRICED)),
    }


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the sum of the known ones; None if none is."""
    known = [value for value in values if value is not None]
    return min(sum(known), MAX_INTEGER) if known else None


def _dollars(nano: int | None) -> float | None:
    return None if nano is None else nano / NANO
