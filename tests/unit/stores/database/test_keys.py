"""Names of threads and turns as columns hold them."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.stores.database.keys import exact_name, id_and_tenant, key_of, key_text, thread_of, turn_bytes, turn_text
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey

ID = "11111111-1111-4111-8111-111111111111"
keys = st.builds(ThreadKey.of, st.just(ID) | st.text(min_size=1, max_size=600), st.none() | st.text(max_size=600))
turn_ids = st.uuids().map(str) | st.uuids().map(lambda one: str(one).upper()) | st.text(min_size=1, max_size=600)


@given(keys, keys)
def test_two_threads_have_two_texts_and_two_names(one: ThreadKey, other: ThreadKey) -> None:
    assert (key_text(one) == key_text(other)) == (one == other)
    assert (id_and_tenant(one) == id_and_tenant(other)) == (one == other)


def test_a_foreign_records_tenant_is_text() -> None:
    """Two records of one batch are of one thread where they are of one row of it."""

    def of(tenant: Any) -> ThreadKey:
        return key_of({"thread_id": ID, "tenant": tenant})  # type: ignore[typeddict-item]  # all that it reads

    assert of(5) == of("5") == ThreadKey(ID, "5")
    assert of(None) == of("") == of(0) == ThreadKey(ID)


@given(keys)
def test_a_row_gives_the_key_that_it_was_made_of(key: ThreadKey) -> None:
    thread_id, tenant = id_and_tenant(key)
    assert thread_of(SimpleNamespace(thread_id=thread_id, tenant=tenant, name=exact_name(key))) == key


def test_usual_names_stand_as_they_are() -> None:
    for key, text in ((ThreadKey(ID), ID), (ThreadKey(ID, "acme"), f"{ID}/acme"), (ThreadKey(ID, "a/b"), f"{ID}/a/b")):
        assert key_text(key) == text
        assert id_and_tenant(key) == (ID, key.tenant or "")
        assert exact_name(key) is None


@given(turn_ids, turn_ids)
@example("a" * 16, str(UUID(bytes=b"a" * 16)))
def test_two_turns_have_two_ids_and_each_comes_back(one: str, other: str) -> None:
    assert (turn_bytes(one) == turn_bytes(other)) == (one == other)
    assert turn_text(turn_bytes(one)) == column_text(one)


def test_a_uuid_takes_sixteen_bytes() -> None:
    assert turn_bytes(ID) == UUID(ID).bytes
    assert len(turn_bytes("sixteen letters!")) > 16
