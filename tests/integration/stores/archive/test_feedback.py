"""Feedback in the archive: as the topic had it, beside either kind of archive; gone with its thread."""

import random
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import duckdb
import pytest

from pipeline.observability.metrics import Metrics
from pipeline.policies.retention import DAY_MS
from pipeline.settings import LAKE, Settings, load
from pipeline.stores.archive.turn_archive import archive_of, feedback_archive_of
from pipeline.stores.database.held_and_erased import due_remnants
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import erase
from pipeline.stores.keeping.expiry import RECHECK_MS, Expiry
from pipeline.stores.keeping.tenant_erasure import ARCHIVE, erase_tenant, what_is_left
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback, feedback_of, thread_of
from pipeline.stores.threads.reading import erased_among
from pipeline.stores.turns import write_turns
from pipeline.turns.times import epoch_ms
from pipeline.worker.sinks.role import feedback_archive_work
from tests.support.archived import PAGE
from topics import feedback
from topics.thread_key import ThreadKey
from turnmill.publish.feedback import made
from turnmill.wire.envelope import encode

BEGIN: Final = epoch_ms("2026-01-20T10:00:00Z") or 0
VIEW: Final = re.findall(r"```\n(CREATE VIEW feedback.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0]


@pytest.fixture(params=["", LAKE])
def archived(request: pytest.FixtureRequest, store_url: str, tmp_path: Path) -> Settings:
    if request.param and not store_url.startswith("sqlite:"):
        pytest.skip("to tables, databases are alike")
    place = f"{request.param}{(tmp_path / 'an archive').as_uri()}"
    return load({}, home=tmp_path, store=store_url, archive=place, archive_bytes=3_000, archive_age=60)


def a_topic() -> list[Any]:
    """Records of feedback over some days, some replaced and taken back; and one that is none."""
    rng = random.Random(5)
    records = []
    for n in range(60):
        chat, tenant = rng.choice([("chat", None), ("other", None), ("chat", "acme")])
        said = {
            "id": f"f{rng.randrange(9)}",
            "name": "score",
            "value": rng.choice([None, True, 0.5, "good"]),
            "run_id": "r",
        }
        value = encode({**made(chat, tenant, said), "at": BEGIN + n})
        records.append(SimpleNamespace(offset=n, timestamp=BEGIN + n * 3_600_000, value=value))
    records.insert(30, SimpleNamespace(offset=60, timestamp=BEGIN, value=b"rubbish"))
    for number, one in enumerate(records):
        one.offset = number
    return records


async def written(settings: Settings, records: list[Any]) -> None:
    work = feedback_archive_work(settings, Metrics(), None)  # type: ignore[arg-type]  # it produces nothing
    await work.assign({3: 0})
    await work.handle(3, records)
    await work.tick(3, 10**9)
    assert work.floor(3) == records[-1].offset + 1
    assert work.topic == "turnmill.feedback"


def read(folder: Path) -> dict[tuple[str, str | None, str], Any]:
    if not any((folder / "feedback").rglob("*.parquet")):
        return {}
    connection = duckdb.connect()
    connection.execute(VIEW.replace("s3://bucket/prefix/", f"{folder}/"))
    rows = connection.execute("SELECT thread_id, tenant, id, value, number FROM feedback").fetchall()
    return {(thread, tenant, id_): (value, number) for thread, tenant, id_, value, number in rows}


async def of_store(store: ThreadStore, records: list[Any]) -> dict[tuple[str, str | None, str], Any]:
    decoded = [(feedback.decode(one.value), one) for one in records if one.value != b"rubbish"]
    await add_feedback(store, [ReceivedFeedback(record, one.timestamp, one.offset) for record, one in decoded])
    found = await feedback_of(store, {thread_of(record) for record, _ in decoded})
    return {
        (key.thread_id, key.tenant, one["id"]): (
            {True: "true", 0.5: "0.5", "good": '"good"'}[one["value"]],
            None if isinstance(one["value"], str) else float(one["value"]),
        )
        for key, some in found.items()
        for one in some
    }


async def test_the_archive_has_what_the_store_has(archived: Settings, store: ThreadStore, tmp_path: Path) -> None:
    records, folder = a_topic(), tmp_path / "an archive"
    right = await of_store(store, records)
    await written(archived, records)
    files = {path.name: path.read_bytes() for path in folder.rglob("feedback/*/*.parquet")}
    assert read(folder) == right
    assert len({path.parent for path in folder.rglob("feedback/*/*.parquet")}) >= 3
    await written(archived, records)  # a replay
    assert {path.name: path.read_bytes() for path in folder.rglob("feedback/*/*.parquet")} == files
    assert await archive_of(archived, partial(erased_among, store)).holding("acme") == 0, (
        "turns have objects of their own"
    )


async def test_it_goes_with_its_thread_and_its_tenant(archived: Settings, store: ThreadStore, tmp_path: Path) -> None:
    records, folder = a_topic(), tmp_path / "an archive"
    right = await of_store(store, records)
    await written(archived, records)
    gone = thread_of(made("chat", None, {"name": "n", "value": 1}))  # type: ignore[arg-type]
    assert (await erase(archived, store, gone, "a test")).segments > 0
    left = {name: one for name, one in right.items() if name[:2] != (gone.thread_id, None)}
    assert read(folder) == left
    await written(archived, records)  # it stays away
    assert read(folder) == left
    assert (await what_is_left(archived, store, "acme")).found[ARCHIVE] > 0
    await erase_tenant(archived, store, "acme", "a test", lambda _: None)
    assert (await what_is_left(archived, store, "acme")).nothing
    assert {tenant for _, tenant, _ in read(folder)} == {None}


async def test_it_expires_with_its_thread(archived: Settings, store: ThreadStore, record: Any, tmp_path: Path) -> None:
    records, folder = a_topic(), tmp_path / "an archive"
    await write_turns(store, [record("chat"), record("young", seconds=5)])
    await of_store(store, records)
    await written(archived, records)
    archive = feedback_archive_of(archived, partial(erased_among, store))
    chat = ThreadKey.of(record("chat")["thread_id"], None)
    assert chat in await archive.threads_of("")
    expiry, now = (
        Expiry(archived.model_copy(update={"store_retention": "30d"}), store),
        BEGIN + 31 * DAY_MS,
    )  # what was said on the second day is younger than that
    assert (await expiry.would_go(now)).archived > 0
    for _ in range(20):
        await expiry.step(now)
    assert chat not in await archive.threads_of("")
    assert await archive.threads_of("acme"), "that is another thread"
    now += RECHECK_MS
    for _ in range(20):
        await expiry.step(now)
    assert await due_remnants(store, now + 10 * DAY_MS) == []
    young = records[-1].timestamp
    assert young - BEGIN < 30 * DAY_MS
    assert read(folder)
