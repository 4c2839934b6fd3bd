"""What one process finds out about conversations, told to another one in the headers of records."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill.capture.conversations import (
    ANSWERED_HEADER,
    MAX_HEADER_BYTES,
    Asked,
    Conversations,
    Fact,
    fact_of,
    headers_of_fact,
)
from turnmill.capture.normal import messages
from turnmill.capture.reading import RequestNames

TEXT = st.text(max_size=20)


def asked(*words: str, scope: str = "acme") -> Asked:
    """A request whose messages are the user's and the assistant's in turn."""
    said = [{"role": ("user", "assistant")[at % 2], "content": word} for at, word in enumerate(words)]
    return Asked(scope, messages("openai-chat", {"messages": said}), RequestNames(), words)


def answer(conversations: Conversations, request: Asked, run: str, text: str) -> Fact:
    said = messages("openai-chat", {"messages": [{"role": "assistant", "content": text}]})
    return conversations.answered(conversations.place(request, run), request, said[0])


@given(TEXT, TEXT, st.lists(st.binary(min_size=1, max_size=32) | TEXT, min_size=1, max_size=4), TEXT | st.none())
def test_a_fact_comes_back_as_it_went(thread: str, run: str, keys: list[bytes | str], after: str | None) -> None:
    fact = Fact("acme", thread, run, tuple(keys), after)
    assert fact_of([("traceparent", b"x"), *headers_of_fact(fact)], "acme") == fact


def test_a_conversation_goes_on_in_another_process_and_branches_there() -> None:
    here, there = Conversations(), Conversations()
    told = headers_of_fact(answer(here, asked("Hello"), "r1", "Hi."))
    assert there.place(asked("Hello", "Hi.", "Weather?"), "r0").continues is None, "it does not know yet"
    fact = fact_of(told, "acme")
    assert fact is not None
    there.learn(fact)
    request = asked("Hello", "Hi.", "Weather?")
    place = there.place(request, "r2")
    assert (place.thread, place.continues, place.replaces) == ("r1", "r1", None)
    (said,) = messages("openai-chat", {"messages": [{"role": "assistant", "content": "Sunny."}]})
    back = fact_of(headers_of_fact(there.answered(place, request, said)), "acme")
    assert back is not None
    here.learn(back)
    other = here.place(asked("Hello", "Hi.", "And news?"), "r3")
    assert (other.continues, other.replaces) == ("r1", "r2"), "a branch of what the other process has seen"


def test_what_is_told_belongs_to_the_tenant_that_the_record_names() -> None:
    here, there = Conversations(), Conversations()
    told = headers_of_fact(answer(here, asked("Hello"), "r1", "Hi."))
    fact = fact_of(told, "globex")
    assert fact is not None
    there.learn(fact)
    assert there.place(asked("Hello", "Hi.", "More"), "r2").continues is None
    assert there.place(asked("Hello", "Hi.", "More", scope="globex"), "r3").continues == "r1"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"[]",
        b"{",
        b"7",
        b'{"thread": 1, "run": "r", "keys": []}',
        b'{"thread": "t", "run": "r", "keys": 5}',
        b'{"thread": "t", "run": "r", "keys": [5]}',
        b'{"thread": "t", "run": "r", "keys": [{"hash": "xyz"}]}',
        b'{"thread": "t", "run": "r", "keys": [], "after": 5}',
        json.dumps({"thread": "t" * MAX_HEADER_BYTES, "run": "r", "keys": []}).encode(),
    ],
)
def test_what_is_no_fact_tells_nothing(value: Any) -> None:
    assert fact_of([(ANSWERED_HEADER, value)], "acme") is None


def test_what_can_not_be_known_again_has_no_header() -> None:
    assert headers_of_fact(Fact("", "t", "r", ())) == []
    assert headers_of_fact(Fact("", "t" * MAX_HEADER_BYTES, "r", ("k",))) == []
