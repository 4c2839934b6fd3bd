"""Lines of records: what is refused of them costs little, however much there is."""

import json

from pipeline.gateway.access.principal import Principal
from pipeline.gateway.intake.records import read
from turnmill.limits import PUBLISHED_LINE_BYTES, REFUSALS

EVIL = Principal("evil", frozenset({"publish"}), "evil")
RECORD = {"v": 1, "thread_id": "t", "run_id": "r", "agent_id": "a", "seq": 0, "ts": 1, "dialect": "vercel-ai"}
GOOD = json.dumps({**RECORD, "events": [{"type": "start"}]}).encode()


def test_a_line_that_is_refused_does_not_stop_the_others() -> None:
    batch = read(b"\n".join([GOOD, b"rubbish", b"", b"   ", GOOD, b"x" * (PUBLISHED_LINE_BYTES + 1), GOOD]), EVIL)
    assert len(batch.records) == 3
    assert [(one.line, one.reason) for one in batch.refusals] == [(2, "undecodable"), (6, "too_large")]
    assert all(len(one.detail) < 300 for one in batch.refusals)


def test_thousands_of_refused_lines_are_not_read_to_their_end() -> None:
    batch = read(GOOD + b"\nx" * 4_000_000, EVIL)
    assert len(batch.refusals) == REFUSALS + 1
