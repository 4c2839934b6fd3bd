"""Which records say what their runs follow: threads without any do not fork, and are read in pages by an index."""

from typing import Any

import pytest

from pipeline.turns.run_tree import may_fork
from pipeline.turns.thread_document import thread_document
from tests.support.turn_records import make_record

PLACING = ("continues", "replaces", "follows", "checkpoint", "asked", "again", "goes_on")


@pytest.mark.parametrize(
    ("lineage", "expected"),
    [
        ({}, False),
        ({"words": "w"}, False),
        ({"words": "w", "checkpoints": ["c"], "beside": True}, False),
        ({"words": ""}, True),
        ({"words": "w", "earlier": "e"}, True),
        *(
            ({key: "x"}, True)
            for key in ("continues", "replaces", "follows", "checkpoint", "asked", "again", "goes_on")
        ),
    ],
)
def test_a_lineage_says_whether_its_thread_may_fork(lineage: dict[str, Any], expected: bool) -> None:  # noqa: FBT001  # a case
    record: Any = make_record(lineage=lineage)
    assert may_fork(record) is expected


def test_an_imported_mark_and_a_record_without_turn() -> None:
    marked: Any = make_record()
    marked["turn"]["meta:branch"] = {"run": "r"}
    assert may_fork(marked)
    facts: Any = make_record(turn=None)
    assert not may_fork(facts)


def test_an_agent_whose_first_config_has_no_time_is_as_old_as_its_thread() -> None:
    records: list[Any] = [make_record(run=f"r{n}", seconds=n) for n in range(2)]
    records[0]["agents"] = [{"agent_id": "a1"}, {"agent_id": "a2"}]
    records[1]["agents"] = [{"agent_id": "a1", "agent_name": "A", "created_at": "2026-01-20T10:00:01.000Z"}]
    agents = thread_document(records[0]["thread_id"], records)["agents"]
    dates = {agent_id: config["created_at"] for agent_id, config in agents.items()}
    assert dates == dict.fromkeys(("a1", "a2"), "2026-01-20T10:00:00.000Z")
    assert agents["a1"]["agent_name"] == "A"
