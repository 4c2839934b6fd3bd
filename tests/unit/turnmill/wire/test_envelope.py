"""The envelope's two codecs agree; what they refuse as dead letters is in tests/unit/assembly/test_partition.py."""

import gc
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topics import json_text
from topics.agent_event import explain
from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import NAMED_CHARACTERS
from turnmill.publish.run_info import RunInfo
from turnmill.wire.envelope import MAX_INTEGER, NAMES, decode, encode, loads

GOOD: dict[str, Any] = {
    "v": 1,
    "thread_id": "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11",
    "run_id": "r",
    "agent_id": "a",
    "seq": 12,
    "ts": 1_768_928_342_002,
    "dialect": "vercel-ai",
    "events": [{"type": "start"}],
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"dt": [0]},
        {"dt": None},
        {"dt": [-5]},
        {"end": "complete"},
        {"end": None},
        {"tenant": "t"},
        {"run": {}},
        {"run": {"model_name": "m", "unknown": [1]}},
        {"unknown": {"kept": True}},
        {"events": []},
        {"seq": 0},
        {"seq": MAX_INTEGER, "ts": MAX_INTEGER},
        {"run_id": "__proto__"},
    ],
)
def test_good_ones(more: dict[str, Any]) -> None:
    data = encode({**GOOD, **more})
    assert decode(data) == {**GOOD, **more}
    assert explain(data) == []


@pytest.mark.parametrize(
    "more",
    [
        {"v": 2},
        {"v": None},
        {"thread_id": "chat"},
        {"thread_id": None},
        {"run_id": ""},
        {"agent_id": 5},
        {"seq": -1},
        {"seq": True},
        {"seq": 1.5},
        {"seq": MAX_INTEGER + 1},
        {"ts": -1},
        {"ts": "now"},
        {"events": {}},
        {"events": None},
        {"dt": ["0"]},
        {"dt": [0.5]},
        {"end": "over"},
        {"end": []},
        {"run": []},
        {"tenant": 5},
        {"tenant": "ü" * 201},
        {"dialect": ""},
    ],
)
def test_both_codecs_refuse(more: dict[str, Any]) -> None:
    data = encode({**GOOD, **more})
    with pytest.raises(InvalidRecord) as refused:
        decode(data)
    assert len(refused.value.detail) < 250
    (problem,) = explain(data)
    assert next(iter(more)) in problem


def test_dt_has_a_number_for_each_event() -> None:
    with pytest.raises(InvalidRecord, match="one per event"):
        decode(encode({**GOOD, "dt": [0, 1]}))


def test_the_thread_id_is_read_in_lower_case() -> None:
    assert decode(encode({**GOOD, "thread_id": GOOD["thread_id"].upper()}))["thread_id"] == GOOD["thread_id"]


def test_an_empty_tenant_is_none() -> None:
    assert decode(encode({**GOOD, "tenant": ""}))["tenant"] is None
    assert decode(encode({**GOOD, "tenant": "ü" * 200}))["tenant"] == "ü" * 200


def test_half_a_surrogate_pair_is_no_tenant() -> None:
    with pytest.raises(InvalidRecord, match="'tenant' holds half of a surrogate pair"):
        decode(encode({**GOOD, "tenant": "a\ud800"}))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@given(JSON)
def test_any_json_there_and_back(value: Any) -> None:
    assert decode(encode({**GOOD, "events": [value]}))["events"] == [value]


@given(st.binary(max_size=60) | JSON.map(lambda value: json_text.dumps(value).encode()))
def test_whatever_comes_is_an_envelope_or_an_invalid_record(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        decode(data)
    assert explain(data)


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '["\\ud800", NaN]', '["\\ud800", -Infinity]', '["\\ud800", 1e999]']
)
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        loads(text.encode())
    assert refused.value.reason is Reason.UNDECODABLE


def test_lone_surrogates_are_read_as_javascript_writes_them() -> None:
    assert loads(b'["\\ud83d", "\\ud83d\\ude00", 1.5]') == ["\ud83d", "😀", 1.5]
    assert json.loads(encode({"x": "\ud83d"})) == {"x": "\ud83d"}


@pytest.mark.parametrize("key", ["run_id", "agent_id", "dialect"])
def test_ids_and_names_are_as_long_as_they_may_be_and_no_longer(key: str) -> None:
    assert decode(encode({**GOOD, key: "💥" * NAMED_CHARACTERS}))[key]
    with pytest.raises(InvalidRecord, match=f"'{key}' has 400,000 characters; at most 1,000 are taken"):
        decode(encode({**GOOD, key: "x" * 400_000}))


@pytest.mark.parametrize("key", NAMES)
def test_so_are_those_of_what_is_known_about_a_run(key: str) -> None:
    assert key in RunInfo.model_fields
    decode(encode({**GOOD, "run": {key: "x" * NAMED_CHARACTERS, "request": "x" * 5_000}}))
    with pytest.raises(InvalidRecord, match=f"'run.{key}' has 1,001 characters"):
        decode(encode({**GOOD, "run": {key: "x" * (NAMED_CHARACTERS + 1)}}))


def test_many_small_values_are_parsed_without_the_garbage_collector() -> None:
    """Found by an attack: two such records held the gateway's loop for a second."""
    data = b"[" + b"[]," * 300_000 + b"0]"
    looked: list[str] = []
    callback = lambda phase, _: looked.append(phase)  # noqa: E731
    gc.callbacks.append(callback)
    try:
        loads(data)
    finally:
        gc.callbacks.remove(callback)
    assert len(looked) < 10
    assert gc.isenabled()
    with pytest.raises(InvalidRecord):
        loads(data[:-1])
    assert gc.isenabled()
