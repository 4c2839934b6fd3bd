from pathlib import Path

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.agents_and_requests import request_bodies
from pipeline.stores.threads.reading import count_rows
from pipeline.turns.requests import digest
from tests.bench import asked
from tests.bench.asked import AIM, SIZES, Asked, body, measure
from tests.bench.results import Suite
from tests.bench.searched_store import TENANTS
from tests.bench.targets import ASKED_MORE, aims
from topics import json_text


async def test_turns_with_requests_of_each_size_are_stored(tmp_path: Path) -> None:
    found = await measure(tmp_path, lambda _: None, batches=1)
    assert [one.size for one in found] == list(SIZES)
    assert all(one.cost > 0 for one in found)
    for place, size in enumerate(SIZES):
        async with await ThreadStore.open(f"sqlite:///{tmp_path / f'asked-{place}.db'}") as store:
            assert (await count_rows(store)).turns == asked.TURNS * (asked.FIRST + 1)
            names = [digest(body(size))]
            assert bool(await request_bodies(store, names, "t0")) == bool(size)
            assert await request_bodies(store, names, f"t{TENANTS}") == {}


def test_requests_have_about_their_size() -> None:
    for size in filter(None, SIZES):
        assert 0.9 < len(json_text.dumps(body(size))) / size < 1.1


def test_one_size_has_a_target() -> None:
    (aim,) = aims(Suite(asked=[Asked(size, 100.0, 0.05) for size in SIZES]))
    assert f"{AIM:,} bytes" in aim.what
    assert (aim.measured, aim.bound, aim.verdict) == (0.05, ASKED_MORE, "met")
