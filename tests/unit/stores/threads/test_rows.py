"""Turn records as rows: their JSON, and what they are known by."""

import json
from typing import Any

import pytest

from pipeline.stores.database.packing import unpacked
from pipeline.stores.threads.rows import prompt, record_of, record_rows
from pipeline.turns.thread_document import digest
from tests.support.turn_records import make_record
from topics import json_text, turn_record


def nested(levels: int, inside: Any) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "Zürich 🦊",
        "half \ud800",
        2**70,
        1e16,
        nested(300, "ü"),
        *(nested(levels, "ü") for levels in range(245, 256)),
    ],
    ids=lambda value: str(value)[:8].encode("ascii", "backslashreplace").decode(),
)
@pytest.mark.parametrize("place", ["turn", "thread"])
def test_the_digest_is_that_of_the_record_however_it_is_written(place: str, value: Any) -> None:
    record = make_record("chat", "run", text="hello", thread={"title": "a"})
    of_record: dict[str, Any] = dict(record)
    of_record[place]["custom:value"] = value
    rows = record_rows(record)
    assert rows.turn["digest"].hex() == digest(record)[:32]
    assert record_of(rows.turn["record"]) == record
    assert record_rows(record, turn_record.encode(record)).turn == rows.turn


def test_a_record_is_kept_as_it_came() -> None:
    record = make_record("chat", "run", text="hello")
    came = json.dumps(record, indent=1).encode()
    rows = record_rows(record, came)
    assert unpacked(rows.turn["record"]) == came
    assert record_of(rows.turn["record"]) == record


@pytest.mark.parametrize("member", ["requests", "z"])
def test_a_record_is_kept_without_its_requests(member: str) -> None:
    """Wherever they stand in it."""
    record: Any = make_record("chat", "run", text="hello")
    asked = {"ab" * 32: {"model": "m"}}
    came = turn_record.encode({**record, "requests": asked, member: asked})
    rows = record_rows(turn_record.decode(came), came)
    left = {key: value for key, value in turn_record.decode(came).items() if key != "requests"}
    assert rows.turn == record_rows(left).turn  # type: ignore[arg-type]
    assert rows.requests == asked


def test_what_a_turn_asks_is_json_too() -> None:
    record = make_record("chat", "run", text="hello")
    call = {"part_kind": "tool-call", "tool_name": "pay", "tool_call_id": "c1", "args": {"sum": 7}}
    assert record["turn"] is not None
    record["turn"]["messages"][-1]["parts"].append(call)
    rows = record_rows(record)
    (asked,) = json_text.loads(rows.turn["asked"])["asked"]
    assert asked["args"] == {"sum": 7}


@pytest.mark.parametrize("requests", [[1], "text", 1, {}], ids=repr)
def test_requests_of_a_foreign_record_may_be_anything(requests: Any) -> None:
    rows = record_rows({**make_record(), "requests": requests})
    assert rows.requests == {}
    assert "requests" not in record_of(rows.turn["record"])


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (["<environment_context>\n<cwd>/w</cwd>\n</environment_context>", "Why is it slow?"], "Why is it slow?"),
        (["<system-reminder>Be brief.</system-reminder>", "<b>bold</b> is what?"], "<b>bold</b> is what?"),
        (["<p>Only this.</p>"], "<p>Only this.</p>"),
        (["<p>Never closed.", "More."], "<p>Never closed."),
        ([" ", "Hi"], "Hi"),
    ],
)
def test_what_an_agent_puts_before_the_question_is_not_the_prompt(said: list[str], shown: str) -> None:
    parts = [{"part_kind": "text", "content": text} for text in said]
    assert prompt({"turn_type": "user", "parts": parts}) == shown
