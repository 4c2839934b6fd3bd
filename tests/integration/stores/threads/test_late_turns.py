"""A thread's row follows from its turns alone, however late each of them comes."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from pipeline.stores.database.schema import erased, threads
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.turns import write_turns
from tests.support.turn_records import make_record
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

KEY = ThreadKey.of(thread_uuid("chat")[0], None)


def of_facts(record: dict[str, Any]) -> dict[str, Any]:
    """A record without turn, which holds facts of the thread."""
    return {**record, "turn": None}


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records of a thread: users', agents', of facts; some with titles and names, some at the same time."""
    made = []
    for number in range(draw(st.integers(2, 7))):
        role = draw(st.sampled_from(["user", "agent", "agent", "facts"]))
        record = make_record(
            "chat",
            f"r{number}",
            seconds=draw(st.integers(1, 5)),
            role="user" if role == "user" else "agent",
            text=draw(st.sampled_from(["hello", "And in Oslo?"])),
            tokens=number,
            model=draw(st.sampled_from(["model-1", "model-2"])),
            status=draw(st.sampled_from(["complete", "interrupted"])),
        )
        record["thread"] = draw(st.sampled_from([{}, {"title": "a"}, {"title": "b"}, {"external_id": "c"}]))
        made.append(of_facts(record) if role == "facts" else record)
    return made


async def row_of(store: ThreadStore) -> dict[str, Any]:
    [row] = await store.rows(select(threads))
    return {name: value for name, value in row._asdict().items() if name != "id"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(records(), st.data())
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_row_does_not_depend_on_the_order_of_its_turns(
    store: ThreadStore, said: list[dict[str, Any]], data: st.DataObject
) -> None:
    found = []
    for order in (said, data.draw(st.permutations(said))):
        cut = data.draw(st.integers(0, len(order)))
        for some in (order[:cut], *([record] for record in order[cut:])):
            await write_turns(store, some)
        found.append(await row_of(store))
        await delete_thread(store, KEY)
        await store.change(erased.delete())
    assert found[0] == found[1]
