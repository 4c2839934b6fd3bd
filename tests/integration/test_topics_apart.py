"""What a tenant has on a topic under the ids of another one is not the other's: a case for each topic."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.dialects import DIALECTS
from pipeline.gateway.control.commands import new_command
from pipeline.kafka.outbox import Outbox
from pipeline.observability.metrics import Metrics
from pipeline.observability.telemetry_meter import TelemetryMeter
from pipeline.policies.webhooks import EVENTS as EVERYTHING
from pipeline.policies.webhooks import Webhook, secret_of
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.holding import hold_thread, release_thread
from pipeline.stores.outbound.notices import deleted, due_notices
from pipeline.stores.threads.feedback import feedback_of
from pipeline.worker.sinks.role import feedback_writer, turn_writer
from pipeline.worker.webhooks.role import notice_event
from tests.support.assembled import START, THREAD_ID
from tests.support.commands import turnmill
from tests.support.fleet import Envelope
from tests.support.gateways import talk
from tests.support.waiting import PATIENCE
from topics import json_text, notice, turn_record
from topics.catalog import CATALOG, CONTROL, DEAD_LETTERS, EVENTS, FACTS, FEEDBACK, NOTICES, STATE, TELEMETRY, TURNS
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill import Publisher
from turnmill.control.claims import answer_id
from turnmill.control.receiver import Control
from turnmill.ending import ended
from turnmill.publish.feedback import made
from turnmill.wire.envelope import decode, encode

TENANTS: Final = ("acme", "globex", None)


def word(tenant: str | None) -> str:
    return f"{tenant or 'nobody'}-says"


def records(tenant: str | None) -> list[Envelope]:
    """One run, in three records."""
    events = [{**event, "delta": word(tenant)} if "delta" in event else event for event in talk(6)]
    usage = {"type": "data-sys-usage", "data": {"input_tokens": 7, "output_tokens": 1}}
    events[-2:-2] = [usage]
    fixed = {"v": 1, "thread_id": THREAD_ID, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai", "ts": START}
    of = {} if tenant is None else {"tenant": tenant}
    cuts = (events[:4], events[4:7], events[7:])
    starts = (0, 4, 7)
    made = [{**fixed, **of, "seq": seq, "events": some} for seq, some in zip(starts, cuts, strict=True)]
    made[-1]["end"] = "complete"
    return made


def interleaved() -> list[Envelope]:
    return [record for of_all in zip(*map(records, TENANTS), strict=True) for record in of_all]


def fed(envelopes: list[Envelope], partition: Partition, first: int = 0) -> Partition:
    stored = [StoredRecord(encode(each), first + n, START + n) for n, each in enumerate(envelopes)]
    partition.feed(stored)
    return partition


def new() -> Partition:
    return Partition(DIALECTS, Limits(open_bytes=1), 0)


def whole(turns: list[TurnRecord]) -> None:
    """Each tenant's turn is there once, complete, and holds its own words alone."""
    assert sorted(str(turn.get("tenant")) for turn in turns) == sorted(map(str, TENANTS))
    for turn in turns:
        text = json_text.dumps(turn)
        assert turn["status"] == "complete"
        assert text.count(word(turn.get("tenant"))) >= 1
        assert not [other for other in TENANTS if other != turn.get("tenant") and word(other) in text], text


async def events(_: Settings) -> None:
    out = fed(interleaved(), new()).out
    assert not out.dead
    whole(out.turns)


async def state(_: Settings) -> None:
    """Spilled runs and marks, taken over by another worker."""
    sent = interleaved()
    first = fed(sent[:5], new())
    first.spill()
    second = new()
    found = RestoredState()
    for name, value in [*first.out.segments, *first.out.marks]:
        found.take(name.encode(), value)
    second.restore(found)
    fed(sent[5:], second, first=5)
    assert not second.out.dead
    whole(second.out.turns)
    third = new()
    found = RestoredState()
    closed = fed(records("acme"), new())
    for name, value in [*closed.out.segments, *closed.out.marks]:
        found.take(name.encode(), value)
    third.restore(found)
    out = fed(records("globex"), third, first=10).out
    assert [turn.get("tenant") for turn in out.turns] == ["globex"], "a mark counts for its own tenant"


async def turns(settings: Settings) -> None:
    out = fed(interleaved(), new()).out
    values = [StoredRecord(turn_record.encode(turn), n, 0, b"key") for n, turn in enumerate(out.turns)]
    async with await ThreadStore.open(settings.store_url, migrate=True) as store:
        writer = turn_writer(settings, Metrics(10), Outbox(_NoLetters()))
        writer.store.value = store
        await writer.apply([(0, values)])  # type: ignore[list-item]  # all that it reads
    for tenant in TENANTS:
        done = await turnmill(settings, "export", THREAD_ID, "--tenant", tenant or "")
        assert done.stdout.count(word(tenant)) >= 1, done.stderr
        assert not [other for other in TENANTS if other != tenant and word(other) in done.stdout]


async def feedback(settings: Settings) -> None:
    said = [
        {**made("chat", None, {"id": "same", "name": "n", "value": word(one)}), "thread_id": THREAD_ID, "tenant": one}
        for one in TENANTS
    ]
    values = [StoredRecord(encode(one), n, 0, b"key") for n, one in enumerate(said)]
    async with await ThreadStore.open(settings.store_url, migrate=True) as store:
        writer = feedback_writer(settings, Metrics(10), Outbox(_NoLetters()))
        await writer.apply([(0, values)])  # type: ignore[list-item]  # all that it reads
        keys = {ThreadKey.of(THREAD_ID, one): one for one in TENANTS}
        for key, found in (await feedback_of(store, keys)).items():
            assert [one["value"] for one in found] == [word(keys[key])]


async def commands(settings: Settings) -> None:
    """A tenant's commands are for its own run; the runs of others have the same ids, and ask the same."""
    listening = Control(settings)
    listening._task = asyncio.create_task(asyncio.sleep(0))
    async with Publisher(settings, keep_after=0.1) as publisher:
        runs = {
            one: publisher.run(
                thread_id=THREAD_ID, agent_id="a", dialect="vercel-ai", run_id="r", tenant=one, steers=True
            )
            for one in TENANTS
        }
        for run in runs.values():
            run.hear()
            listening.begun(run)

        def given(kind: str, **payload: Any) -> None:
            listening.heard(encode(new_command(kind, (THREAD_ID, "acme"), "r", "now", "ann", payload).record))

        waiting = {one: asyncio.create_task(run.answered("q")) for one, run in runs.items()}
        await asyncio.sleep(0)
        given("answer", answer_id=answer_id("r", "q"), value=True)
        assert (await asyncio.wait_for(waiting["acme"], PATIENCE)).value is True
        others = [task for task in waiting.values() if not task.done()]
        assert len(others) == len(waiting) - 1
        given("steer", text="And in Oslo?")
        assert [one for one, run in runs.items() if await run.steered()] == ["acme"]
        given("stop")
        assert [one for one, run in runs.items() if run.stopped] == ["acme"]
        for task in others:
            await ended(task)


class _NoLetters:
    async def send_batch(self, _: str, __: int, records: Any) -> tuple[int, Awaitable[object]]:
        raise AssertionError(f"every turn can be stored: {records}")


async def telemetry(_: Settings) -> None:
    metrics = Metrics(10)
    meter = TelemetryMeter(metrics)
    for record in [*fed(interleaved(), new()).out.telemetry] * 2:
        meter.take(record)
    tokens = {
        sample.labels["tenant"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "turnmill_tokens_total" and sample.labels["token_type"] == "input"
    }
    assert len(tokens) == len(TENANTS)
    assert {"acme", "globex"} < tokens.keys()
    assert set(tokens.values()) == {7}, tokens


async def dead_letters(_: Settings) -> None:
    """A record that can't be used, with another tenant's ids, is a letter of its own and harms nobody's turn."""
    bad = [{**one, "tenant": "globex", "events": [7]} for one in records("acme")]
    sent = [one for pair in zip(bad, records("acme"), records(None), strict=True) for one in pair]
    out = fed(sent, new()).out
    assert {decode(letter.record.value)["tenant"] for letter in out.dead} == {"globex"}
    mine = [turn for turn in out.turns if turn.get("tenant") == "acme"]
    assert [turn["status"] for turn in mine] == ["complete"]
    assert word("acme") in json_text.dumps(mine[0])


async def notices(_: Settings) -> None:
    """What is said of a tenant's thread is heard by that tenant's webhooks, in a lane of its own."""
    secret = (secret_of(b"k" * 32),)
    hooks = {tenant: Webhook("w", "https://a.example.com/", EVERYTHING, tenant or "", secret) for tenant in TENANTS}
    lanes = set()
    for tenant in TENANTS:
        record = notice.decode(notice.encode(deleted(ThreadKey.of(THREAD_ID, tenant), "deleted", START)))
        event = notice_event(record, ("notices", 0, 0), START)
        assert [name for name, hook in hooks.items() if hook.hears(event)] == [tenant]
        lanes.add(event.lane)
    assert len(lanes) == len(TENANTS)


async def facts(settings: Settings) -> None:
    """A hold of a tenant's thread is a fact of its own, and its release is none of the others'."""
    async with await ThreadStore.open(settings.store_url) as store:
        for tenant in TENANTS:
            await hold_thread(store, ThreadKey.of(THREAD_ID, tenant))
        await release_thread(store, ThreadKey.of(THREAD_ID, "acme"))
        told = [notice.decode(notice.encode(one))["data"] for one in await due_notices(store, 1)]
    rows = {one["key"]: one["row"] and one["row"]["name"] for one in sorted(told, key=lambda one: one["n"])}
    assert list(rows.values()) == [None, [THREAD_ID, "globex"], [THREAD_ID, None]]


CASES: Final[dict[str, Callable[[Settings], Awaitable[None]]]] = {
    EVENTS.name: events,
    TURNS.name: turns,
    TELEMETRY.name: telemetry,
    DEAD_LETTERS.name: dead_letters,
    STATE.name: state,
    NOTICES.name: notices,
    FEEDBACK.name: feedback,
    CONTROL.name: commands,
    FACTS.name: facts,
}


@pytest.mark.parametrize("topic", [topic.name for topic in CATALOG])
async def test_a_topic(topic: str, tmp_path: Any) -> None:
    await asyncio.wait_for(CASES[topic](Settings(home=tmp_path)), 120)
