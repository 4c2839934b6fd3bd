"""The store that `turnmill bench --only search` makes, in small, and its tables."""

from pathlib import Path

import pytest
from sqlalchemy import text

from pipeline.stores.database.engine import create_engine
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.hits import SearchQuery, find_turns
from tests.bench import report, searched_store, searching
from tests.bench.results import Suite
from tests.bench.searched_store import EVERY, fill, order
from tests.bench.searching import COMMON_WORD, RARE_WORD, Searches
from tests.bench.suite import MEASUREMENTS, SEARCH, Plan
from tests.bench.targets import aims
from tests.unit.bench.test_report import WHERE

TURNS = 3_000


async def test_words_are_in_as_many_turns_as_they_are_said_to_be(
    store: ThreadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searched_store, "AT_ONCE", 1_000)
    await fill(store, TURNS, lambda _: None)
    for word, every in EVERY.items():
        found, cursor = 0, None
        while found < 300:
            page = await find_turns(store, SearchQuery(word, limit=100, cursor=cursor))
            found, cursor = found + len(page.results), page.next
            if cursor is None:
                break
        assert found == min(300, TURNS // every), word
    assert len((await find_turns(store, SearchQuery(order(1_500)))).results) == 1


async def test_its_index_may_take_longer_than_a_statement_of_a_store(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create_engine, "__kwdefaults__", {"command_seconds": 0.2})
    async with ThreadStore(postgres_database) as store:
        with pytest.raises(StoreError, match="TimeoutError"):
            async with store.reading() as connection:
                await connection.execute(text("SELECT pg_sleep(0.5)"))
        await searched_store._run(store, "postgresql", "SELECT pg_sleep(0.5)")


async def test_both_parts_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WRITTEN", 1), ("AT_ONCE", 50), ("ROUNDS", 1), ("ASKED", 2)):
        monkeypatch.setattr(searching, name, value)
    (measured,) = await searching.both(tmp_path, None, 2_000, lambda _: None)
    assert {name: len(found) for name, found in measured.cost.items()} == {"off": 1, "on": 1}
    assert measured.more(measured.room) > 0
    assert {len(ms) for ms in measured.queries.values()} == {2}


def test_it_is_measured_where_it_is_asked_for() -> None:
    assert SEARCH in MEASUREMENTS
    assert SEARCH not in Plan.of([], everything=True, peers=False).measurements


def test_its_tables_and_its_targets() -> None:
    ms = [float(n) for n in range(1, 101)]
    cost = {"off": [110.0, 100.0], "on": [140.0, 150.0]}
    one = Searches("sqlite", 5_000_000, cost, {"off": 1000, "on": 1300}, {RARE_WORD: ms, COMMON_WORD: ms})
    suite = Suite(searches=[one])
    shown = report.markdown(suite, WHERE)
    assert "| sqlite | 100 | 140 | +40% | 1,000 | 1,300 | +30% |" in shown
    assert f"| {RARE_WORD} | sqlite | 5,000,000 | 50.0 ms | 95.0 ms | 99.0 ms | 100.0 ms |" in shown
    assert [aim.verdict for aim in aims(suite)] == ["met", "met", "missed by 33%"]
    assert report.as_json(suite, WHERE)["search"][0]["queries"][COMMON_WORD]["p99"] == 99.0
