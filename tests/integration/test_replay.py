"""`turnmill replay` on a real broker: what it changes, what it leaves out, and how it says so."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import mark_erased
from pipeline.stores.threads.reading import all_documents
from tests.support.commands import turnmill
from tests.support.fleet import AgentRun, expected, fleet, interleaved, run_of
from tests.support.topic_records import publish, writing
from tests.support.workers import WorkerProcess, stored, wait_until_stored
from topics.catalog import EVENTS
from topics.thread_key import ThreadKey
from turnmill.wire.envelope import encode

Documents = dict[str, dict[str, Any]]


async def replay(settings: Settings, *arguments: str, **variables: str) -> dict[str, Any]:
    done = await turnmill(settings, "replay", "--json", *arguments, **variables)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def documents(url: str) -> Documents:
    async with await ThreadStore.open(url) as store:
        return {document["thread_id"]: document async for _, document in all_documents(store)}


async def assembled(settings: Settings, records: Sequence[tuple[bytes, bytes]], turns: int) -> Documents:
    """Publish, and have a worker store it."""
    await publish(settings, EVENTS, records)
    worker = WorkerProcess(settings).start()
    try:
        await wait_until_stored(settings, turns, [worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    return await documents(settings.store_url)


async def send(settings: Settings, run: AgentRun, first: int = 0, last: int | None = None) -> None:
    await publish(settings, EVENTS, [(run.key, value) for value in run.values()[first:last]])


async def test_replay_changes_nothing_and_a_lost_store_comes_back(applied_settings: Settings) -> None:
    settings, runs = applied_settings, fleet(21, 60)
    before = await assembled(settings, list(interleaved(runs, 21)), 60)
    answer = await replay(settings)
    assert answer["turns"] == {"unchanged": 60, "changed": 0, "new": 0}
    assert await documents(settings.store_url) == before

    said = (await turnmill(settings, "replay", "--since", "2h", "--dry-run")).stdout
    assert "turns: 60 unchanged, 0 would be changed, 0 would be new" in said

    other = f"sqlite:///{settings.home / 'other.db'}"
    dry = await replay(settings, "--into", other, "--dry-run")
    assert dry["turns"] == {"unchanged": 0, "changed": 0, "new": 60}
    assert not (settings.home / "other.db").exists()
    assert (await replay(settings, "--into", other))["turns"]["new"] == 60
    assert [json.dumps(d) for d in (await documents(other)).values()] == [json.dumps(d) for d in before.values()]

    for file in settings.home.glob("threads.db*"):
        file.unlink()
    assert (await replay(settings))["turns"] == {"unchanged": 0, "changed": 0, "new": 60}
    assert [json.dumps(d) for d in (await documents(settings.store_url)).values()] == [
        json.dumps(d) for d in before.values()
    ]


async def test_one_thread(applied_settings: Settings) -> None:
    runs = fleet(22, 10)
    await publish(applied_settings, EVENTS, interleaved(runs, 22))
    answer = await replay(applied_settings, "--thread", runs[3].thread_id)
    assert answer["turns"]["new"] == 1
    assert list(await documents(applied_settings.store_url)) == [runs[3].thread_id]


async def test_scattered_runs_are_made_whole(applied_settings: Settings) -> None:
    """By round robin, as a producer without a key or with another balancer writes; ids may be in upper case, too."""
    runs = [run for run in (run_of(27, number) for number in range(40)) if len(run.envelopes) > 3][:4]
    settings = applied_settings.model_copy(update={"idle_timeout": 1.0, "gap_timeout": 0.5, "terminal_grace": 0.5})
    worker = WorkerProcess(settings).start()
    try:
        async with writing(settings, EVENTS) as write:
            for run in runs:
                for number, fields in enumerate(run.envelopes):
                    value = encode(fields | {"thread_id": run.thread_id.upper()} if number % 2 else fields)
                    await write(None, value, number % 3)
                    await asyncio.sleep(0.01)
        await wait_until_stored(settings, len(runs), [worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    whole, broken = expected(runs), await stored(settings)
    assert not broken.items() & whole.items()
    for run in runs:
        answer = await replay(settings, "--thread", run.thread_id.upper())
        assert (answer["turns"]["changed"], answer["cut_runs"], answer["open_runs"]) == (1, 0, 0)
    assert await stored(settings) == whole


async def test_a_stretch_takes_runs_whole(applied_settings: Settings) -> None:
    """`across` begins before it, `into` ends behind it, `before` and `after` have nothing in it."""
    before, across, inside, into, after = (run_of(23, number) for number in range(5))
    for run in (before, across, inside, into, after):
        assert len(run.envelopes) > 2
    await send(applied_settings, before)
    await send(applied_settings, across, 0, 1)
    since = await moment()
    await send(applied_settings, across, 1)
    await send(applied_settings, inside)
    await send(applied_settings, into, 0, 1)
    until = await moment()
    await send(applied_settings, after)
    await send(applied_settings, into, 1)
    answer = await replay(applied_settings, "--since", since, "--until", until)
    assert answer["turns"] == {"unchanged": 0, "changed": 0, "new": 3}
    assert (answer["cut_runs"], answer["open_runs"]) == (0, 0)
    found = await documents(applied_settings.store_url)
    assert set(found) == {run.thread_id for run in (across, inside, into)}
    assert all(turn["completion_status"] == "complete" for document in found.values() for turn in document["turns"])


async def test_a_run_that_is_cut_at_the_edge_is_left_out_and_named(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"run_timeout": 1.0})
    cut, whole = (run_of(24, number) for number in range(2))
    await send(settings, cut, 0, 1)
    await asyncio.sleep(2.0)  # longer than any run lasts: the beginning is out of reach
    since = await moment()
    await send(settings, cut, 1)
    await send(settings, whole)
    done = await turnmill(settings, "replay", "--since", since)
    assert done.returncode == 0, done.stderr
    assert "turns: 0 unchanged, 0 changed, 1 new" in done.stdout
    assert f"{cut.run_id} of thread {cut.thread_id}" in done.stdout
    assert set(await documents(settings.store_url)) == {whole.thread_id}


async def test_open_runs_are_left_out_and_named(applied_settings: Settings) -> None:
    run, unfinished = (run_of(28, number) for number in range(2))
    await send(applied_settings, run)
    await send(applied_settings, unfinished, 0, 2)
    done = await turnmill(applied_settings, "replay")
    assert "turns: 0 unchanged, 0 changed, 1 new" in done.stdout
    assert f"1 run left out, as they are still open: {unfinished.run_id} of thread" in done.stdout
    await send(applied_settings, unfinished, 2)
    assert (await replay(applied_settings))["turns"] == {"unchanged": 1, "changed": 0, "new": 1}


async def test_what_was_erased_stays_erased(applied_settings: Settings) -> None:
    runs = fleet(25, 4)
    await publish(applied_settings, EVENTS, interleaved(runs, 25))
    async with await ThreadStore.open(applied_settings.store_url) as store:
        await mark_erased(store, ThreadKey(runs[0].thread_id))
    other = f"sqlite:///{applied_settings.home / 'other.db'}"
    assert (await replay(applied_settings, "--into", other))["turns"]["erased"] == 1
    assert (await replay(applied_settings))["turns"] == {"unchanged": 0, "changed": 0, "new": 3, "erased": 1}
    for url in (other, applied_settings.store_url):
        assert runs[0].thread_id not in await documents(url)


async def test_large_values_and_rules_are_as_in_the_worker(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"content_threshold": 200, "redact": "email"})
    run = run_of(26, 0)
    run.envelopes[0]["run"] = {"request": {"messages": [{"role": "user", "parts": [mail()]}]}}
    before = await assembled(settings, [(run.key, value) for value in run.values()], 2)
    assert "jo@example.com" not in json.dumps(before)
    assert (await replay(settings))["turns"] == {"unchanged": 2, "changed": 0, "new": 0}
    assert (await replay(settings, "--dry-run"))["turns"]["unchanged"] == 2


async def test_beside_a_worker(applied_settings: Settings) -> None:
    runs = fleet(27, 80)
    worker = WorkerProcess(applied_settings).start()
    try:
        await publish(applied_settings, EVENTS, interleaved(runs, 27))
        for _ in range(2):
            await replay(applied_settings)
        await wait_until_stored(applied_settings, 80, [worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    assert (await replay(applied_settings))["turns"] == {"unchanged": 80, "changed": 0, "new": 0}


async def test_times_that_are_none(settings: Settings) -> None:
    for arguments in (("--since", "soon"), ("--until", "2x"), ("--since", "1h", "--until", "2h")):
        done = await turnmill(settings, "replay", *arguments)
        assert done.returncode == 2
        assert "--since" in done.stderr or "--until" in done.stderr
    done = await turnmill(settings, "replay")
    assert done.returncode == 3
    assert "turnmill topics apply" in done.stderr


def mail() -> dict[str, str]:
    return {"type": "text", "text": "write to jo@example.com"}


async def moment() -> str:
    """Now, between two records for sure."""
    await asyncio.sleep(0.05)
    now = time.time()
    await asyncio.sleep(0.05)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
