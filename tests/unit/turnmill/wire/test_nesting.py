"""What depth of JSON is taken: by the text alone, and the same by every way into the program."""

import json
import sys
import threading
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import PATIENCE
from topics import turn_record
from turnmill.errors import InvalidRecord
from turnmill.limits import LEVELS, OWN_LEVELS
from turnmill.wire.envelope import decode, loads
from turnmill.wire.nesting import too_deep, with_room

ANY_JSON = st.recursive(
    st.none() | st.integers() | st.text() | st.text(alphabet='\\\\"[]{}x'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='\\\\"[]{}x'), inner),
    max_leaves=60,
)


def levels(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)
    return 1 + max(map(levels, value), default=0) if isinstance(value, list) else 0


@given(ANY_JSON, st.integers(0, 5))
def test_it_is_the_depth_that_is_counted(value: Any, most: int) -> None:
    assert too_deep(json.dumps(value).encode(), most) == (levels(value) > most)


@pytest.mark.parametrize("inner", [b"1", b'"[[[\\\\"', b'"\\\\\\"]]]"', b'"\\ud800"', b"[]," * 5000 + b"{}"])
@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[1,{"]":', b"}]")])
def test_the_bound_is_exact_and_ours(begin: bytes, end: bytes, inner: bytes) -> None:
    """With a lone surrogate the standard library reads it, whose bound is its interpreter's."""
    inner_levels = levels(json.loads(b"[" + inner + b"]"))
    count = (LEVELS - inner_levels) // len([one for one in begin if one in b"[{"])
    loads(begin * count + b"[" + inner + b"]" + end * count)
    with pytest.raises(InvalidRecord, match="nested too deeply: at most 1,024 levels"):
        loads(begin * (count + 1) + b"[" + inner + b"]" + end * (count + 1))


def test_orjson_reads_as_deep_as_we_say() -> None:
    """The usual way is orjson's alone, and nothing is counted on it."""
    for begin, end in ((b"[", b"]"), (b'{"a":', b"}")):
        orjson.loads(begin * (LEVELS - 1) + b"[]" + end * (LEVELS - 1))
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(begin * LEVELS + b"[]" + end * LEVELS)


def test_a_turn_made_of_what_is_deep_can_be_read() -> None:
    """It holds an event's data some levels further down than the event does."""
    value = with_room(lambda: json.loads("[" * LEVELS + "]" * LEVELS))
    record: Any = {"v": 1, "turn": {"messages": [{"parts": [{"content": [value]}]}]}}
    record |= dict.fromkeys(("thread_id", "run_id", "turn_id", "agent_id", "revision", "status"), "x")
    data = turn_record.encode(record)
    assert with_room(lambda: turn_record.decode(data) == record)
    with pytest.raises(InvalidRecord):
        turn_record.decode(b"[" * (OWN_LEVELS + 1) + b"]" * (OWN_LEVELS + 1))


def test_a_record_that_is_too_deep_is_refused_in_both_ways_of_the_codec() -> None:
    for text in (b"", b'"\\ud800"'):
        with pytest.raises(InvalidRecord, match="nested too deeply"):
            decode(b'{"v":1,"x":' + b"[" * LEVELS + text + b"]" * LEVELS + b"}")


def test_room_of_many_threads_is_given_back() -> None:
    """Found by the review: the second of two threads took the raised limit for the usual one."""
    usual = sys.getrecursionlimit()
    first_is_in, second_is_in, first_is_out = threading.Event(), threading.Event(), threading.Event()

    def once(*, first: bool) -> None:
        tried = []

        def call() -> None:
            if not tried:
                tried.append(1)
                raise RecursionError
            if first:
                first_is_in.set()
                second_is_in.wait(PATIENCE)
            else:
                second_is_in.set()
                first_is_out.wait(PATIENCE)

        with_room(call)

    first, second = (threading.Thread(target=once, kwargs={"first": one}) for one in (True, False))
    first.start()
    first_is_in.wait(PATIENCE)
    second.start()
    first.join()
    assert sys.getrecursionlimit() > usual
    first_is_out.set()
    second.join()
    assert sys.getrecursionlimit() == usual
