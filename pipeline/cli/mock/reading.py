"""Reads the calls of stored threads from the store, and their runs' events if the topic still has them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pipeline.cli.mock.calls import Call, as_recorded, calls_of
from pipeline.cli.stored.selection import find_document
from pipeline.kafka.reading import bounds_of, may_name, offsets_at, read, reader
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.agents_and_requests import request_bodies
from pipeline.stores.threads.reading import read_records
from pipeline.turns.redaction import Redaction
from pipeline.turns.requests import named_in
from pipeline.turns.times import epoch_ms
from topics.catalog import EVENTS
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from turnmill.errors import BrokerError, CallerError, InvalidRecord
from turnmill.settings import BrokerSettings
from turnmill.wire.envelope import decode

EARLIER_MS = 60_000  # the clocks of publishers and the broker may differ by this


async def calls_in(
    brokers: BrokerSettings,
    store_url: str,
    contents: ContentStore,
    names: Sequence[str],
    tenant: str | None,
    redaction: Redaction | None,
) -> tuple[list[Call], str | None]:
    """Return the calls of threads, and why events could not be used, else None. Raises CallerError, StoreError."""
    all_calls: list[Call] = []
    why: str | None = None
    wires = set[str]()
    async with await ThreadStore.open(store_url) as store:
        for name in names:
            key, stored = await find_document(store, name, tenant)
            document = await contents.inlined(key, stored)
            records = {read_record["turn_id"]: read_record for read_record in await read_records(store, key)}
            wires |= {record["dialect"] for record in records.values()}
            calls = calls_of(document, records, await request_bodies(store, named_in(document), key.tenant or ""))
            if redaction is not None and redaction.paths:
                why = "rules of redaction name paths, which events have not"
            else:
                try:
                    runs = await events_of(brokers, key, epoch_ms(document["created_at"]) or 0)
                    hashes = {record["hash"] for record in records.values()}
                    calls = as_recorded(
                        calls, hashes, runs, lambda event: event if redaction is None else redaction.value(event)
                    )
                except BrokerError as error:
                    why = str(error)
            all_calls += calls
    if not all_calls:
        told = f"only runs of {', '.join(sorted(wires))}" if wires else "nor anything else"
        raise CallerError(f"no call of an API that mock serves is stored there, {told} (docs/mock.md)")
    return all_calls, why


async def events_of(brokers: BrokerSettings, key: ThreadKey, since: int) -> Mapping[str, list[Fields]]:
    """Return a thread's envelopes on the events topic, by run, whatever partitions they are in. Raises BrokerError."""
    runs = defaultdict[str, list[Fields]](list)
    bounds, name = await bounds_of(brokers, EVENTS), key.thread_id.encode()
    async with reader(brokers) as consumer:
        firsts = await offsets_at(consumer, since - EARLIER_MS, {place: end for place, (_, end) in bounds.items()})
        spans = {place: (max(begin, firsts[place]), end) for place, (begin, end) in bounds.items()}
        async for _, records in read(consumer, spans):
            for record in (record for record in records if may_name(record, name)):
                with suppress(InvalidRecord):
                    envelope = decode(record.value)
                    if ThreadKey.of(envelope["thread_id"], envelope.get("tenant")) == key:
                        runs[envelope["run_id"]].append(envelope)
    return runs
