"""Keys of threads as columns hold them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.keys import exact, key_text, newer_text, older_text
from topics.thread_key import ThreadKey

ID = "11111111-1111-4111-8111-111111111111"
keys = st.builds(ThreadKey.of, st.just(ID) | st.text(min_size=1, max_size=600), st.none() | st.text(max_size=600))


@given(keys, keys)
def test_two_threads_have_two_texts(one: ThreadKey, other: ThreadKey) -> None:
    assert (key_text(one) == key_text(other)) == (one == other)


@given(keys)
def test_a_text_gives_the_key_or_says_that_it_can_not(key: ThreadKey) -> None:
    assert exact(key_text(key)) in (key, None)


def test_a_usual_key_is_told_by_its_text() -> None:
    for key, text in ((ThreadKey(ID), ID), (ThreadKey(ID, "acme"), f"{ID}/acme"), (ThreadKey(ID, "a/b"), f"{ID}/a/b")):
        assert key_text(key) == text
        assert exact(text) == key
        assert older_text(key) == ID
        assert newer_text(ID, key.tenant) == newer_text(text, key.tenant) == text
