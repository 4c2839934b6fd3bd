"""Searches on both databases: what is found, in which order, for whom; and that the index holds what the turns say."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Text, cast, delete, func, select, text

from pipeline.stores.database.engine import SEARCH as CHOICE
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.keys import turn_text
from pipeline.stores.database.schema import turn_words, turns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread, mark_erased
from pipeline.stores.search import hits as search
from pipeline.stores.search import write as stored_write
from pipeline.stores.search.hits import SearchQuery, find_turns
from pipeline.stores.search.query import fts5, wanted_only
from pipeline.stores.search.write import CHOICES, index_some, search_words, tsvector
from pipeline.stores.threads.rows import record_of, record_rows
from pipeline.stores.turns import write_turns
from pipeline.turns.searched_text import KINDS
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid

CHATS: Final = ("chat", "other")


async def found(store: ThreadStore, q: str, **more: Any) -> list[str]:
    """The snippets of all pages."""
    query, snippets = SearchQuery(q, **more), list[str]()
    while True:
        page = await find_turns(store, query)
        snippets += [hit.snippet for hit in page.results]
        if page.next is None:
            return snippets
        query = SearchQuery(q, **(more | {"cursor": page.next}))


def thinking(record: dict[str, Any]) -> dict[str, Any]:
    """The record of an agent's turn, with a thought, a call and its result beside what it says."""
    record["turn"]["messages"][0]["parts"] += [
        {"part_kind": "thinking", "content": "perhaps a walrus"},
        {"part_kind": "tool-call", "tool_name": "book_flight", "tool_call_id": "c", "args": {"to": "Madagascar"}},
        {"part_kind": "tool-return", "tool_name": "book_flight", "tool_call_id": "c", "status": "success"}
        | {"content": {"seats": ["12A", "giraffe"]}},
        {"part_kind": "tool-return", "tool_name": "book_flight", "tool_call_id": "d", "status": "success"}
        | {"content_ref": {"uri": "file:///zebra", "hash": "zebra"}},
    ]
    return record


@pytest.mark.parametrize(
    ("q", "hits"),
    [
        ("WEATHER", ["paris", "plural"]),
        ("weather paris", ["paris"]),
        ('"weather in paris"', ["paris"]),
        ('"paris weather"', []),
        ("weat*", ["paris", "plural"]),
        ("weather -paris", ["plural"]),
        ('weather -"in paris"', ["plural"]),
        ("weather -pari*", ["plural"]),
        ("eric", ["accents"]),
        ("ÉRIC'S", ["accents"]),
        ("天気", ["kanji"]),
        ("天気予報", ["kanji"]),
        ("報で", ["kanji"]),
        ("予天", []),
        ("ครับ", ["thai"]),
        ("nothing", []),
    ],
)
async def test_words_phrases_prefixes_and_exclusions(store: ThreadStore, record: Any, q: str, hits: list[str]) -> None:
    texts = {
        "paris": "The weather in Paris is fine",
        "plural": "Weather, weathers & weathered",
        "accents": "Éric’s café",
        "kanji": "今日の天気予報です",
        "thai": "สวัสดีครับ",
    }
    await write_turns(store, [record(run=run, text=said_) for run, said_ in texts.items()])
    async with store.reading() as connection:
        runs = {
            turn_text(row.turn_id): row.run_id
            for row in await connection.execute(select(turns.c.turn_id, turns.c.run_id))
        }
    page = await find_turns(store, SearchQuery(q))
    assert sorted(runs[hit.turn_id] for hit in page.results) == sorted(hits)
    assert page.next is None


async def test_a_hit_says_where_it_is_and_shows_it_without_letting_html_in(store: ThreadStore, record: Any) -> None:
    await write_turns(
        store, [record(role="user", text="<b onclick='x'>Hello</b>\0 & \ud800 hello"), record(run="r2", seconds=5)]
    )
    page = await find_turns(store, SearchQuery("hello", role="user"))
    (hit,) = page.results
    assert (hit.thread_id, hit.role, hit.at) == (thread_uuid("chat")[0], "user", 1_768_903_201_000)
    assert hit.turn_id == record()["turn_id"]
    assert hit.snippet.startswith("&lt;b onclick=&#x27;x&#x27;&gt;<mark>Hello</mark>&lt;/b&gt;")
    assert hit.score > 0
    assert [
        one.role for one in (await find_turns(store, SearchQuery("hello", agent_id="a1", role="agent"))).results
    ] == ["agent"]
    assert (await find_turns(store, SearchQuery("hello", agent_id="a2"))).results == ()


async def test_thoughts_and_results_are_searched_by_choice(store_url: str, record: Any) -> None:
    async with await ThreadStore.open(store_url, migrate=True) as store:
        await write_turns(store, [thinking(record(run="plain"))])
        for kinds in (KINDS[:1], KINDS):
            assert len(await found(store, "book_flight", kinds=kinds)) == 1
            for q in ("walrus", "giraffe", "madagascar", "zebra"):
                assert await found(store, q, kinds=kinds) == []
    async with await ThreadStore.open(store_url, search="all") as store:
        await write_turns(store, [thinking(record(run="all"))])
        assert await found(store, "walrus") == []
        assert await found(store, "walrus", kinds=("thinking",)) == ["perhaps a <mark>walrus</mark>"]
        assert await found(store, "giraffe", kinds=KINDS) == ["12A <mark>giraffe</mark>"]
        assert await found(store, '"seats 12a"', kinds=KINDS) == []
        assert await found(store, "zebra", kinds=KINDS) == []
        assert await found(store, "hello -walrus", kinds=KINDS) == ["<mark>hello</mark>"]


async def test_tenants_see_their_own(store: ThreadStore, record: Any) -> None:
    for tenant in ("acme", "globex", None):
        await write_turns(
            store, [record(run=str(tenant), text=f"hello of {tenant}", **({"tenant": tenant} if tenant else {}))]
        )
    assert len(await found(store, "hello")) == 3
    assert await found(store, "hello", tenant="acme") == ["<mark>hello</mark> of acme"]
    assert await found(store, "hello", tenant="") == ["<mark>hello</mark> of None"]
    assert await found(store, "globex", tenant="acme") == []
    assert await found(store, "hello", tenant="nobody") == []


async def test_the_newest_are_ranked_and_pages_go_through_all(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "CANDIDATES", 5)
    texts = [f"number {n} {'hello ' * (1 + n % 3)}" for n in range(12)]
    await write_turns(store, [record(run=f"r{n}", seconds=n, text=said_) for n, said_ in enumerate(texts)])
    first = await find_turns(store, SearchQuery("hello", limit=3))
    ats = [(hit.at - 1_768_903_200_000) // 1000 for hit in first.results]
    assert ats == [11, 8, 10], "of the five newest those that say it most often"
    assert [hit.score for hit in first.results] == sorted((hit.score for hit in first.results), reverse=True)
    await write_turns(store, [record(run="new", seconds=99, text="hello new")])
    pages, cursor = [first], first.next
    while cursor is not None:
        pages.append(await find_turns(store, SearchQuery("hello", limit=3, cursor=cursor)))
        cursor = pages[-1].next
    seen = [hit.at for page in pages for hit in page.results]
    assert len(seen) == len(set(seen)) == 12
    start = 1_768_903_200_000
    since, until = start + 3_000, start + 6_000
    assert len(await found(store, "hello", since=since, until=until)) == 3
    assert len(await found(store, "hello", since=since, until=until, limit=1)) == 3


async def test_postgres_and_sqlite_look_further_where_the_newest_turns_do_not_have_it(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "CANDIDATES", 4)
    monkeypatch.setattr(search, "PROBES", (3, 8))
    monkeypatch.setattr(search, "FULL_PROBE", 1)
    await write_turns(store, [record(run=f"r{n}", seconds=n, text="odd" if n % 2 else "even") for n in range(20)])
    await write_turns(store, [record(run="rare", seconds=0, text="needle")])
    assert len(await found(store, "needle")) == 1
    assert len(await found(store, "odd")) == 10
    assert len(await found(store, "even")) == 10


async def test_what_a_database_gives_in_spite_of_an_exclusion_is_left_out(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "CANDIDATES", 3)
    monkeypatch.setattr(search, "WINDOWS", 9)
    texts = ["weather in rome", *["weather in paris"] * 7]
    await write_turns(store, [record(run=f"r{n}", seconds=n, text=said_) for n, said_ in enumerate(texts)])
    if store._engine.dialect.name == "sqlite":
        monkeypatch.setattr(search, "fts5", lambda terms, *rest: fts5(wanted_only(terms), *rest))
    assert await found(store, "weather -paris") == ["<mark>weather</mark> in rome"]


HOSTILE: Final = (
    *("'", '"', '""', "a" * 500, "*" * 500, "-" * 400, '"' * 500, "a OR b", "NOT a", "a AND (", "words:x", "{a}: b"),
    *("a & b | !c", "'a':*", "a <-> b", "a NEAR(b, 3)", "^a", "a; DROP TABLE said; --", "%", "\\", "a\0b", "\ud800 x"),
    *("§t0000 hello", "¶ hello", "‹hello", "天" * 200, "ก" * 400, "\u0301" * 100, "İ", "ß*", "½ hello", "﷽" * 200),
)


@pytest.mark.parametrize("q", HOSTILE)
async def test_no_query_breaks_anything(store: ThreadStore, record: Any, q: str) -> None:
    await write_turns(store, [record(text="hello x a b c"), record(run="same", text=q)])
    try:
        query = SearchQuery(q, kinds=KINDS)
    except CallerError:
        return
    assert all(hit.snippet for hit in (await find_turns(store, query)).results)


async def test_a_search_that_takes_too_long_is_stopped(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_turns(store, [record()])
    slow = (
        "WITH RECURSIVE n(id, words) AS (SELECT 1, 2 UNION ALL SELECT id + 1, 2 FROM n WHERE id < 1000000000) "
        "SELECT count(*), 1 FROM n"
    )
    monkeypatch.setattr(search, "STATEMENT_TIMEOUT", 1)
    monkeypatch.setattr(search, "sqlite_candidates", lambda *_: text(slow))
    monkeypatch.setattr(search, "postgres_candidates", lambda *_: text(slow))
    with pytest.raises(CallerError, match="took longer than 1 s"):
        await find_turns(store, SearchQuery("hello"))
    monkeypatch.undo()
    assert len(await found(store, "hello")) == 1, "the connection goes on"


async def test_bad_cursors_are_refused(store: ThreadStore) -> None:
    for cursor in ("", "x", "Ww", "WzEsMl0x", "WzEsIjIiXQ", "Wy0xLDBd", "WzEsMTAwMDAwXQ", "é"):
        with pytest.raises(CallerError, match="cursor"):
            await find_turns(store, SearchQuery("hello", cursor=cursor))


async def test_what_is_replaced_or_deleted_is_not_found(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(text="secret"), record("other", text="secret too")])
    await write_turns(store, [record(text="redacted", revision=1)])
    assert await found(store, "secret") == ["<mark>secret</mark> too"]
    assert await found(store, "redacted") == ["<mark>redacted</mark>"]
    key = ThreadKey(thread_uuid("other")[0])
    await mark_erased(store, key)
    assert await found(store, "secret") == [], "from the mark on, though the rows go last"
    await delete_thread(store, key)
    async with store.reading() as connection:
        assert await connection.scalar(select(func.count()).select_from(turn_words)) == 1
    await write_turns(store, [record("other", text="secret too")])
    assert await found(store, "secret") == []


async def test_off_keeps_nothing_gives_the_room_back_and_can_be_turned_on_again(store_url: str, record: Any) -> None:
    async with await ThreadStore.open(store_url, migrate=True) as store:
        await write_turns(store, [record(run=f"r{n}", text="secret") for n in range(3)])
    async with await ThreadStore.open(store_url, search="off") as store:
        await write_turns(store, [record(run="r0", text="public", revision=1), record(run="r9", text="public")])
        assert len(await found(store, "secret")) == 2
        assert await found(store, "public") == []
        assert [await index_some(store), await stored_write.index_some(store)] == [2, 0]
        assert await found(store, "secret") == []
    async with await ThreadStore.open(store_url) as store:
        assert await index_some(store) == 4
        assert (len(await found(store, "secret")), len(await found(store, "public"))) == (2, 2)


async def test_turns_of_one_moment_have_ids_of_their_own(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the numbers of all turns have come round, and those of this moment are given already."""
    monkeypatch.setattr("pipeline.stores.database.ids.NUMBERS", 1)
    for n in range(3):
        await write_turns(store, [record(run=f"r{n}-{m}", text=f"hello {n} {m}") for m in range(3)])
    assert len(await found(store, "hello")) == 9
    assert len(await found(store, "hello 1")) == 5
    async with store.reading() as connection:
        ids = (await connection.scalars(select(turn_words.c.id))).all()
    assert len(set(ids)) == len(ids) == 9


async def check_index(store: ThreadStore) -> None:
    """The rows are those of the turns, and the databases' own indexes those of the rows."""
    async with store.reading() as connection:
        rows = (await connection.execute(select(turns.c.id, turns.c.record).where(turns.c.searched))).all()
        right = {row.id: search_words(record_rows(record_of(row.record)), CHOICES["on"]) for row in rows}
        right = {id_: words for id_, words in right.items() if words}
        sqlite = connection.dialect.name == "sqlite"
        as_text = " ".join if sqlite else tsvector
        current = select(turn_words.c.id, cast(turn_words.c.words, Text)).join(turns, turn_words.c.id == turns.c.id)
        held = dict((await connection.execute(current.where(turns.c.searched))).all())
        expected = {key: as_text(words) for key, words in right.items()}
        if not sqlite:
            normal = [
                await connection.scalar(text("SELECT CAST(CAST(:w AS tsvector) AS text)"), {"w": w})
                for w in expected.values()
            ]
            expected = dict(zip(expected, normal, strict=True))
        assert held == expected
    if sqlite:
        async with store.writing() as connection:
            await connection.execute(
                text("INSERT INTO turn_words_index(turn_words_index, rank) VALUES ('integrity-check', 1)")
            )


STEPS: Final = ("write", "write", "write", "again", "erase", "step", "off")


async def test_any_sequence_of_steps_leaves_the_words_of_all_turns(store: ThreadStore, record: Any) -> None:
    loop = asyncio.get_running_loop()
    words = st.sampled_from(["hello", "hello world", "天気予報", "a b a", "", "…", "\0\ud800"])

    async def step(name: str, records: Sequence[Any], chat: str) -> None:
        if name in ("write", "again"):
            await write_turns(store, records)
        elif name == "erase":
            await delete_thread(store, ThreadKey(thread_uuid(chat)[0]))
        else:
            choice = "off" if name == "off" else "on"
            store._writer = store._writer.execution_options(**{CHOICE: choice})
            await index_some(store, 2)
            store._writer = store._writer.execution_options(**{CHOICE: "on"})
        await check_index(store)

    async def check_all() -> None:
        while await index_some(store):
            pass
        await check_index(store)
        async with store.reading() as connection:
            left = await connection.scalar(select(func.count()).where(turns.c.searched.is_(None)))
        assert left == 0
        async with store.writing() as connection:
            await connection.execute(delete(turns))
            assert await connection.scalar(select(func.count()).select_from(turn_words)) == 0

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        def run(work: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result()

        draw = data.draw
        records: list[Any] = []
        for _ in range(draw(st.integers(1, 8))):
            name = draw(st.sampled_from(STEPS))
            if name != "again":
                some = draw(st.lists(st.tuples(st.sampled_from(CHATS), st.integers(0, 2), words), max_size=3))
                records = [
                    record(chat, f"r{n}", text=said_, seconds=n, revision=draw(st.integers(0, 3)))
                    for chat, n, said_ in some
                ]
            run(step(name, records, draw(st.sampled_from(CHATS))))
        run(check_all())

    await asyncio.to_thread(check)


async def stored(store: ThreadStore, records: Sequence[Any]) -> bool:
    """Whether it worked: a thread may have been deleted meanwhile."""
    try:
        await write_turns(store, records)
    except StoreError as error:
        if not error.transient:
            raise
        return False
    return True


async def test_writers_steps_and_erasures_at_once(store: ThreadStore, store_url: str, record: Any) -> None:
    writing = True

    async def write(number: int) -> None:
        async with await ThreadStore.open(store_url) as own:
            for n in range(12):
                some = [record(f"chat{m % 3}", f"r{number}-{n // 2}", seconds=m, revision=n) for m in range(6)]
                while not await stored(own, some):
                    pass

    async def index() -> None:
        async with await ThreadStore.open(store_url) as own:
            while writing:
                await index_some(own, 3)
                await asyncio.sleep(0)

    async def erase() -> None:
        for n in range(6):
            await asyncio.sleep(0.05)
            await delete_thread(store, ThreadKey(thread_uuid(f"chat{n % 2}")[0]))

    steps = [asyncio.create_task(index()) for _ in range(2)]
    await asyncio.gather(*map(write, range(3)), erase())
    writing = False
    await asyncio.gather(*steps)
    await check_index(store)
    assert len(await found(store, "hello")) > 0
