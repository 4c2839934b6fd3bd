"""Rules never raise, whatever the JSON; extensions survive every change of version."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from topics.findings import Finding
from topics.thread import Thread
from topics.thread_rules import check
from topics.thread_versions import downgrade, repeat_user_prompt, upgrade

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
TIMES = st.sampled_from(
    ["2026-01-20T10:00:00Z", "2026-01-20T10:00:01.5+02:00", "2026-01-20T10:00:02", "0001-01-01T00:00:00+14:00", "soon"]
)
EXTRA = st.dictionaries(st.sampled_from(["meta:x", "custom:y", "vendor"]), JSON, max_size=2)
IDS = st.sampled_from(["a", "b", "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11", ""])
# Names and values of the protocol, so that random documents come close to real ones.
FIELDS = """
    version turns agents relationships links turn_type parts messages message_type timestamp submitted_at started_at
    completed_at completion_status interruption reason interrupted_at agent_id part_kind content content_ref uri args
    tool_call_id tool_name status client_metadata finish_reason usage input_tokens thread_id
"""
VALUES = """
    0.0.3 0.0.4 user agent request response system text tool-call tool-return retry-prompt user-prompt file
    system-prompt complete interrupted tool_calls s3://b/k data:x
"""
NAMES = st.sampled_from(FIELDS.split())
WORDS = st.sampled_from(VALUES.split()) | TIMES | IDS
NEARLY = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=40,
)


@st.composite
def parts(draw: st.DrawFn) -> dict[str, Any]:
    part = draw(
        st.sampled_from(
            [
                {"part_kind": "text", "content": "hi"},
                {"part_kind": "user-prompt", "content": "hello"},
                {"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "c", "args": {}},
                {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "success"},
                {"part_kind": "custom:thing"},
            ]
        )
    )
    return part | draw(EXTRA)


@st.composite
def turns(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        turn = {"turn_type": "user", "submitted_at": draw(TIMES), "parts": draw(st.lists(parts(), max_size=2))}
        return turn | draw(EXTRA)
    kinds = st.sampled_from(["request", "response"])
    messages = [
        {
            "message_type": draw(kinds),
            "timestamp": draw(TIMES),
            "agent_id": "a",
            "parts": draw(st.lists(parts(), max_size=3)),
        }
        | draw(EXTRA)
        for _ in range(draw(st.integers(0, 3)))
    ]
    ending = draw(
        st.sampled_from(
            [
                {"completion_status": "complete", "completed_at": "2026-01-20T10:00:03Z"},
                {"completion_status": "interrupted", "interruption": {"reason": "error", "interrupted_at": "later"}},
            ]
        )
    )
    return (
        {"turn_type": "agent", "agent_id": "a", "started_at": draw(TIMES), "messages": messages} | ending | draw(EXTRA)
    )


@st.composite
def threads(draw: st.DrawFn) -> dict[str, Any]:
    agent = {"agent_id": "a", "agent_name": "A", "created_at": draw(TIMES)} | draw(EXTRA)
    return {
        "version": "0.0.4",
        "thread_id": "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11",
        "created_at": draw(TIMES),
        "updated_at": draw(TIMES),
        "agents": {"a": agent},
        "turns": draw(st.lists(turns(), max_size=4)),
    } | draw(EXTRA)


def as_text(value: Any) -> str:
    """Compares by what would be written: 1 is not 1.0 is not true, and NaN equals itself."""
    return json.dumps(value, sort_keys=True)


@given(
    JSON
    | NEARLY
    | st.fixed_dictionaries({"version": st.sampled_from(["0.0.3", "0.0.4"]), "turns": NEARLY, "agents": NEARLY})
)
def test_check_takes_any_json(value: Any) -> None:
    findings = check(value)
    assert all(isinstance(finding, Finding) and finding.message and finding.path.isascii() for finding in findings)


@given(st.fixed_dictionaries({"version": st.sampled_from(["0.0.3", "0.0.4"]), "turns": NEARLY | st.lists(NEARLY)}))
def test_versions_change_any_json_without_raising_and_without_touching_it(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    for change in (upgrade, downgrade, repeat_user_prompt):
        change(document)
    assert as_text(document) == as_text(before)


@given(threads())
def test_models_lose_nothing(thread: dict[str, Any]) -> None:
    assert as_text(Thread.model_validate(thread).model_dump(exclude_unset=True)) == as_text(thread)


@given(threads())
def test_extensions_survive_down_and_up(thread: dict[str, Any]) -> None:
    current = upgrade(thread)
    new_in_0_0_4 = ("completion_status", "interruption")
    kept = [
        {key: value for key, value in turn.items() if key not in new_in_0_0_4}
        for turn in current["turns"]
        if turn.get("completion_status") != "interrupted"
    ]
    downgraded = downgrade(current)
    assert as_text(downgraded) == as_text({**current, "version": "0.0.3", "turns": kept})
    again = upgrade(downgraded)
    assert as_text({**again, "turns": []}) == as_text({**current, "turns": []})
    assert [set(turn) - {"completion_status"} for turn in again["turns"]] == [set(turn) for turn in kept]


@given(threads())
def test_a_repeated_prompt_is_read_as_if_it_were_not_there(thread: dict[str, Any]) -> None:
    assert as_text(upgrade(repeat_user_prompt(thread))) == as_text(upgrade(thread))
