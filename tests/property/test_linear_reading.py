"""What reading a thread costs is linear in its turns, however it forks: in lines of Python, and in bytes."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from pipeline.dialects import FORMATS
from pipeline.turns.branches import one_branch
from pipeline.turns.thread_document import last_turns, thread_document
from tests.property.test_linear_work import ROOM, N, lines_of
from tests.support.assembled import START, THREAD_ID
from topics import json_text
from topics.turn_record import TurnRecord

MANY: Final = 5000
MARK: Final = 400  # bytes of a turn's mark, at most, where runs have ids of 40 characters


def name(number: int) -> str:
    return f"run-{number:036}"


def answer(number: int, lineage: dict[str, Any], **more: Any) -> TurnRecord:
    """A run that answers something, as its record is stored."""
    at = START + number
    response = {"message_type": "response", "agent_id": "a", "parts": [{"part_kind": "text", "content": f"A{number}"}]}
    turn = {"turn_type": "agent", "agent_id": "a", "started_at": at, "completed_at": at, "messages": [response]}
    turn |= {"completion_status": "complete", "meta:turn_id": f"turn-{number}", "meta:run_id": name(number)}
    record: Any = {
        "v": 1,
        "thread_id": THREAD_ID,
        "run_id": name(number),
        "turn_id": f"turn-{number}",
        "agent_id": "a",
        "revision": 1,
        "status": "complete",
        "turn": {**turn, **more.pop("turn", {})},
        "lineage": lineage,
    }
    return {**record, **more}


def partial_answer(number: int) -> TurnRecord:
    """One that broke off, and had shown something else than it keeps."""
    shown = {"message_type": "response", "parts": [{"part_kind": "text", "content": f"shown {number}"}]}
    return answer(number, {"replaces": name(0)}, turn={"meta:partial": {"messages": [shown]}})


def imported(number: int) -> TurnRecord:
    """A turn with a mark that says that it answers the words of the one before, and is no other version of it."""
    mark = {"run": name(number), "follows": name(0), "replaces": name(number - 1)}
    return answer(number, {}, turn={"meta:branch": mark})


def linked(number: int) -> TurnRecord:
    return answer(number, {"replaces": name(0)}, links=[{"thread_id": f"thread-{number}", "link_type": "spawn"}])


SHAPES: Final[dict[str, Callable[[int], TurnRecord]]] = {
    "versions of one answer": lambda k: answer(k, {"replaces": name(0)} if k else {}),
    "each is made from the one before": lambda k: answer(k, {"replaces": name(k - 1)} if k else {}),
    "the same words, asked again": lambda k: answer(k, {"words": "w", "again": True}),
    "other words behind the same history": lambda k: answer(
        k, {"words": f"w{k}", "earlier": "w0"} if k else {"words": "w0"}
    ),
    "two at each place": lambda k: answer(k, {"continues": name(max(0, (k - 1) // 2 * 2))} if k else {}),
    "one behind the other, and a fork": lambda k: answer(k, {"replaces": name(0)} if k == 1 else {}),
    "each names a later one": lambda k: answer(k, {"continues": name(k + 1)} if k % 2 else {"replaces": name(k + 1)}),
    "sub-agents of each other": lambda k: (
        answer(k, {}, parent={"run_id": name(k - 1)}) if k > 1 else answer(k, {"replaces": name(0)})
    ),
    "marks of an import": lambda k: imported(k) if k > 2 else answer(k, {"continues": name(0), "replaces": name(1)}),
    "what broke off": partial_answer,
    "links": linked,
}
READINGS: Final[dict[str, Callable[[list[TurnRecord]], object]]] = {
    "all branches": lambda records: thread_document(THREAD_ID, records),
    "the newest": lambda records: one_branch(thread_document(THREAD_ID, records)),
    "the first": lambda records: one_branch(thread_document(THREAD_ID, records), name(0)),
    "by a turn, the end of it": lambda records: last_turns(
        one_branch(thread_document(THREAD_ID, records), "turn-0"), 5, "turn-0"
    ),
    "messages": lambda records: FORMATS["openai-chat"].printed(thread_document(THREAD_ID, records), partial=True),
}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_reading_takes_work_that_is_linear_in_the_turns(shape: str, reading: str) -> None:
    def made(n: int) -> list[TurnRecord]:
        return [SHAPES[shape](number) for number in range(n)]

    READINGS[reading](made(2))  # what is loaded late, is loaded
    works = [lines_of(partial(READINGS[reading], made(n))) for n in (N, 2 * N, 4 * N)]
    few, many = works[1] - works[0], works[2] - works[1]
    assert many <= 2 * max(few, N) * ROOM, f"{works} lines for {N}, {2 * N} and {4 * N}"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_thread_is_as_large_as_its_turns_and_a_mark_for_each(shape: str) -> None:
    records = [SHAPES[shape](number) for number in range(MANY)]
    document = thread_document(THREAD_ID, records)
    assert len(document["turns"]) == MANY
    assert len(json_text.dumps(document)) < len(json_text.dumps(records)) + MANY * MARK
    forks = [turn for turn in document["turns"] if "version" in turn["meta:branch"]]
    assert len(forks) >= 2, "it does not fork"
    assert one_branch(document)["turns"]
