"""The end of a run that comes when nobody remembers its beginning, with real workers: nothing shrinks, and a replay
joins the two.
"""

import json
from collections.abc import Sequence
from typing import Any

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import all_documents
from tests.support.commands import turnmill
from tests.support.fleet import AgentRun, Envelope, run_of
from tests.support.topic_records import publish, read_all
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import DEAD_LETTERS, EVENTS, STATE, TURNS
from turnmill.identity import thread_uuid

FORGETFUL = {"idle_timeout": 1.0, "gap_timeout": 1.0, "reopen_window": 1.0, "dedupe_window": 2.0}
NATIVE = thread_uuid("native")[0]


def native(numbers: Sequence[int], **last: Any) -> AgentRun:
    """User turns of one `thread-protocol` run, a record each."""
    identity = {"v": 1, "thread_id": NATIVE, "run_id": "native", "agent_id": "a", "dialect": "thread-protocol"}
    records: list[Envelope] = []
    for number in numbers:
        at = f"2026-01-20T10:00:0{number}.000Z"
        said = {"type": "user-turn", "submitted_at": at, "parts": [{"part_kind": "user-prompt", "content": at}]}
        records.append({**identity, "seq": number, "ts": 1_768_928_342_000 + number, "events": [said]})
    records[-1] |= last
    return AgentRun(NATIVE, "native", records)


async def send(settings: Settings, *runs: AgentRun) -> None:
    await publish(settings, EVENTS, [(run.key, value) for run in runs for value in run.values()])


def part_of(run: AgentRun, first: int, last: int | None) -> AgentRun:
    return AgentRun(run.thread_id, run.run_id, run.envelopes[first:last])


async def documents(settings: Settings) -> dict[str, Any]:
    async with await ThreadStore.open(settings.store_url) as store:
        return {key.thread_id: document async for key, document in all_documents(store)}


async def marks_are_gone(settings: Settings, worker: WorkerProcess, count: int) -> None:
    """Wait until the worker has forgotten so many interrupted runs: it has removed their records, then their marks."""

    async def gone() -> bool:
        removed: Any = await read_all(settings, STATE)
        return sum(record.value is None for record in removed) >= 2 * count

    await until(gone, worker.text)


async def test_a_late_end_is_a_dead_letter_and_a_replay_joins_it(applied_settings: Settings, store_url: str) -> None:
    settings = applied_settings.model_copy(update={"store": store_url, **FORGETFUL})
    async with await ThreadStore.open(store_url, migrate=True):
        pass
    run = run_of(71, 0)
    half = len(run.envelopes) // 2
    worker = WorkerProcess(settings).start()
    try:
        await send(settings, part_of(run, 0, half), native([0, 1]))
        await wait_until_stored(settings, 3, [worker])
        before = await documents(settings)
        await marks_are_gone(settings, worker, 2)
        await send(settings, part_of(run, half, None), native([2, 3, 4], end="complete"))

        async def buried() -> list[Any]:
            letters: Any = await read_all(settings, DEAD_LETTERS)
            return letters if len(letters) >= 4 else []

        letters = await until(buried, worker.text)
        assert worker.stop() == 0
    finally:
        worker.end()
    assert await documents(settings) == before
    produced: Any = await read_all(settings, TURNS)
    values = {record.value for record in produced}
    assert len(letters) == 4
    assert {letter.value for letter in letters} <= values
    records = [json.loads(letter.value) for letter in letters]
    last = run.envelopes[-1]["seq"] + len(run.envelopes[-1]["events"]) - 1
    assert {(record["run_id"], json.dumps(record["ranges"])) for record in records} == {
        (run.run_id, json.dumps([[run.envelopes[half]["seq"], last]])),
        ("native", "[[2, 4]]"),
    }
    listed = await turnmill(settings, "dlq", "list", "--json", "--reason", "late_event")
    details = [json.loads(line)["detail"] for line in listed.stdout.splitlines()]
    assert [f"`turnmill replay --thread {NATIVE}`" in detail for detail in details].count(True) == 3

    dry = json.loads((await turnmill(settings, "replay", "--json", "--dry-run")).stdout)
    assert dry["turns"] == {"unchanged": 0, "changed": 3, "new": 3}
    one = json.loads((await turnmill(settings, "replay", "--json", "--thread", NATIVE)).stdout)
    assert one["turns"] == {"unchanged": 0, "changed": 2, "new": 3}
    rest = json.loads((await turnmill(settings, "replay", "--json")).stdout)
    assert rest["turns"] == {"unchanged": 5, "changed": 1, "new": 0}
    joined = await documents(settings)
    assert [turn["submitted_at"][17:19] for turn in joined[NATIVE]["turns"]] == ["00", "01", "02", "03", "04"]
    (turn,) = joined[run.thread_id]["turns"]
    assert turn["completion_status"] == "complete"
    assert "meta:missing" not in turn
