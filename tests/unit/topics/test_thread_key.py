"""A thread's key and its text."""

from hypothesis import given
from hypothesis import strategies as st

from topics.thread_key import ThreadKey

UUID = "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11"
KEYS = st.builds(ThreadKey, st.text(), st.none() | st.text(min_size=1))
CLOSE = st.builds(ThreadKey, st.text("a/%2F5", max_size=6), st.none() | st.text("a/%2F5", min_size=1, max_size=6))


def test_a_uuid_stands_as_it_is() -> None:
    assert ThreadKey(UUID).text == UUID
    assert ThreadKey(UUID, "acme").text == f"{UUID}/acme"


def test_an_empty_tenant_is_none() -> None:
    assert ThreadKey.of(UUID, "") == ThreadKey.of(UUID, None) == ThreadKey(UUID)


@given(KEYS | CLOSE)
def test_the_text_gives_the_key_back(key: ThreadKey) -> None:
    assert ThreadKey.parse(key.text) == key


@given(CLOSE, CLOSE)
def test_two_keys_never_share_a_text(one: ThreadKey, other: ThreadKey) -> None:
    assert (one.text == other.text) is (one == other)
