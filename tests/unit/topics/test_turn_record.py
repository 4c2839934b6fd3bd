from typing import Any

import orjson
import pytest

from topics import turn_record
from turnmill.errors import InvalidRecord

RECORD: Any = {
    "v": 1,
    "thread_id": "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11",
    "run_id": "r",
    "turn_id": "t",
    "agent_id": "a",
    "dialect": "vercel-ai",
    "revision": 0,
    "status": "complete",
    "hash": None,
    "events": 3,
    "turn": {"turn_type": "agent", "messages": []},
}


@pytest.mark.parametrize(
    "odd", ["\0", "\ud800", 2**64, -(2**70), 1.5, orjson.loads("[" * 700 + "]" * 700), {"__proto__": 1}, {"é": None}]
)
def test_there_and_back(odd: Any) -> None:
    record = {**RECORD, "turn": {"x": odd}}
    read = turn_record.decode(turn_record.encode(record))
    assert repr_of(read) == repr_of({**record, "turn": {"x": float(odd) if type(odd) is int else odd}})


def repr_of(value: Any) -> bytes:
    return turn_record.encode(value)


def test_the_order_of_keys_is_kept() -> None:
    assert list(turn_record.decode(turn_record.encode(RECORD))) == list(RECORD)


@pytest.mark.parametrize("name", ["thread_id", "run_id", "turn_id", "agent_id", "revision", "status"])
def test_what_identifies_a_turn_must_be_there(name: str) -> None:
    with pytest.raises(InvalidRecord, match=name):
        turn_record.decode(orjson.dumps({key: value for key, value in RECORD.items() if key != name}))


@pytest.mark.parametrize("data", [None, b"", b"[]", b"5", b"{}", b'{"v": 2}', b"\xff"])
def test_other_records(data: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        turn_record.decode(data)


def test_requests_that_were_read_before_are_the_same_objects() -> None:
    """However many other records come in between, and whatever else is in them."""
    asked = {"ab" * 32: {"system": 'Say "requests":{} and }}', "tools": [{"requests": {"a": {}}}]}}
    record = {**RECORD, "requests": asked}
    first = turn_record.decode(turn_record.encode(record))
    second = turn_record.decode(turn_record.encode({**record, "run_id": "s", "turn": {"text": ',"requests":{}}'}}))
    assert first == record
    assert second == {**record, "run_id": "s", "turn": {"text": ',"requests":{}}'}}
    assert second["requests"] is first["requests"]
    for number in range(turn_record.CACHE_SIZE + 1):
        other = {**RECORD, "requests": {f"{number:064x}": {"model": number}}}
        assert turn_record.decode(turn_record.encode(other)) == other
    assert turn_record.decode(turn_record.encode(record)) == record


@pytest.mark.parametrize("broken", [b"%b", b"[1%b", b'{"v":1,"x":"y%b', b'{"v":1,"x":"y\\"%b', b'{"v":1,"x":{%b'])
def test_the_end_of_a_record_alone_is_none(broken: bytes) -> None:
    requests = {"cd" * 32: {"model": "m"}}
    turn_record.decode(turn_record.encode({**RECORD, "requests": requests}))
    with pytest.raises(InvalidRecord):
        turn_record.decode(broken % turn_record.last_member(requests))
