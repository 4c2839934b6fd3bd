"""Pages of a thread, and its document piece by piece: the turns of the whole document, whatever the pages."""

from typing import Any

import pytest

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import mark_erased
from pipeline.stores.threads import pages
from pipeline.stores.threads.pages import PageWanted, read_page, read_whole
from pipeline.stores.threads.reading import read_thread
from pipeline.stores.turns import write_turns
from pipeline.turns.branches import UnknownBranch, one_branch
from pipeline.turns.thread_document import UnknownTurn
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

KEY = ThreadKey(thread_uuid("chat")[0])
LONG = 10_000


def named(made: dict[str, Any]) -> dict[str, Any]:
    """A record whose turn says its names, as assembled ones do."""
    made["turn"].update({"meta:turn_id": made["turn_id"], "meta:run_id": made["run_id"]})
    return made


async def forward(store: ThreadStore, last: int, branch: str | None = None) -> list[Fields]:
    turns, after = list[Fields](), ""
    while after is not None:
        page = await read_page(store, KEY, PageWanted(last, after=after, branch=branch))
        assert page is not None
        assert (page.previous is None) == (after == "")
        turns += page.document["turns"]
        after = page.next  # type: ignore[assignment]  # None ends the loop
    return turns


async def backward(store: ThreadStore, last: int, branch: str | None = None) -> list[Fields]:
    turns, before = list[Fields](), None
    while True:
        page = await read_page(store, KEY, PageWanted(last, before=before, branch=branch))
        assert page is not None
        assert (page.next is None) == (before is None)
        turns = page.document["turns"] + turns
        if page.previous is None:
            return turns
        before = page.previous


async def streamed(store: ThreadStore) -> Fields:
    whole = await read_whole(store, KEY)
    assert whole is not None
    return {**whole.head, "turns": [turn async for some in whole.turns() for turn in some], **whole.relationships}


@pytest.fixture(params=["straight", "forked", "by words alone"])
async def thread(request: Any, store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch) -> Fields:
    """The document of a thread of ten turns, some at the same time; pieces are of three records."""
    monkeypatch.setattr(pages, "PIECE", 3)
    records = [named(record(run=f"r{n}", seconds=n // 2, text=f"t{n}")) for n in range(10)]
    lineages: dict[str, Any] = {
        "straight": {},
        "forked": {4: {"replaces": "r3"}, 5: {"continues": "r4"}, 9: {"replaces": "r8"}},
        "by words alone": {n: {"words": f"w{n}"} for n in range(10)},
    }
    for n, lineage in lineages[request.param].items():
        records[n]["lineage"] = lineage
    records[2]["links"] = [{"thread_id": thread_uuid("other")[0], "relation": "spawned_from"}]
    records[7]["thread"]["title"] = "A title"
    await write_turns(store, records)
    document = await read_thread(store, KEY)
    assert document is not None
    assert ("meta:branch" in document["turns"][0]) == (request.param == "forked")
    return document


@pytest.mark.parametrize("last", [1, 3, 4, 10, 50])
async def test_pages_have_the_turns_of_the_whole_thread(store: ThreadStore, thread: Fields, last: int) -> None:
    assert await forward(store, last) == await backward(store, last) == thread["turns"]
    for branch in ("", "r3", "r8"):
        expected = one_branch(thread, branch)["turns"]
        assert await forward(store, last, branch) == await backward(store, last, branch) == expected, branch


async def test_a_document_read_piece_by_piece_is_the_whole_one(store: ThreadStore, thread: Fields) -> None:
    assert list((await streamed(store)).items()) == list(thread.items())


async def test_a_page_has_the_title_times_and_links_of_its_thread(store: ThreadStore, thread: Fields) -> None:
    page = await read_page(store, KEY, PageWanted(1))
    assert page is not None
    (agent,) = page.document["agents"].values()
    assert page.document == {**thread, "turns": thread["turns"][-1:], "agents": {agent["agent_id"]: agent}}
    assert agent["agent_name"] == thread["agents"][agent["agent_id"]]["agent_name"]
    between = PageWanted(50, *(thread["turns"][n]["meta:turn_id"] for n in (8, 2)))
    page = await read_page(store, KEY, between)
    assert page is not None
    assert page.document["turns"] == thread["turns"][3:8]


async def test_unknown_names_are_refused(store: ThreadStore, thread: Fields) -> None:
    for wanted in (PageWanted(before="other"), PageWanted(after="other")):
        with pytest.raises(UnknownTurn, match="'other'"):
            await read_page(store, KEY, wanted)
    with pytest.raises(UnknownBranch, match="'other'"):
        await read_page(store, KEY, PageWanted(branch="other"))
    assert await read_page(store, ThreadKey("other"), PageWanted()) is None
    assert await read_whole(store, ThreadKey("other")) is None


async def test_the_tag_of_a_document_changes_with_it(store: ThreadStore, thread: Fields, record: Any) -> None:
    async def tag() -> str:
        whole = await read_whole(store, KEY)
        assert whole is not None
        return whole.tag

    first = await tag()
    assert await tag() == first
    await mark_erased(store, ThreadKey(thread_uuid("other")[0]))
    without_link = await tag()
    assert without_link != first
    assert "relationships" not in await streamed(store)
    await write_turns(store, [named(record(run="late", seconds=0))])
    assert await tag() != without_link


async def test_a_replaced_turn_that_says_what_it_follows_makes_its_thread_fork(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [named(record(run=f"r{n}", seconds=n)) for n in range(3)])
    again = {**named(record(run="r2", seconds=2, revision=1)), "lineage": {"replaces": "r1"}}
    await write_turns(store, [again])
    page = await read_page(store, KEY, PageWanted(branch=""))
    assert page is not None
    assert [turn["meta:run_id"] for turn in page.document["turns"]] == ["r0", "r2"]


async def test_a_page_of_ten_thousand_turns_reads_its_own_records(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, LONG, 1000):
        await write_turns(store, [named(record(run=f"r{n}", seconds=n)) for n in range(start, start + 1000)])
    read = list[bytes]()
    record_of = pages.record_of
    monkeypatch.setattr(pages, "record_of", lambda stored: read.append(stored) or record_of(stored))
    page = await read_page(store, KEY, PageWanted())
    assert page is not None
    assert [turn["meta:run_id"] for turn in page.document["turns"]] == [f"r{n}" for n in range(LONG - 50, LONG)]
    middle = await read_page(store, KEY, PageWanted(before=page.previous))
    assert middle is not None
    assert [turn["meta:run_id"] for turn in middle.document["turns"]] == [f"r{n}" for n in range(LONG - 100, LONG - 50)]
    assert len(read) == 100
