"""What the log says of runs: which run and trace a line is about, as far as a record can be read."""

import logging
from typing import Any

import orjson
import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import Refused, StoredRecord
from pipeline.kafka.dead_letters import DeadLetterLog
from pipeline.observability.logs import IDS
from pipeline.observability.metrics import Metrics
from pipeline.worker.assemble.metrics import AssemblyMetrics
from tests.support.toy import THREAD, TOYS, Log, envelope, text
from turnmill.errors import Reason
from turnmill.wire.traceparent import headers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = f"00-{TRACE}-00f067aa0ba902b7-01"


def ids(line: logging.LogRecord) -> dict[str, Any]:
    return {name: vars(line)[name] for name in IDS if name in vars(line)}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            StoredRecord(orjson.dumps(envelope(0, text("a"))), 7, 0, b"key", headers(SPAN)),
            {"thread_id": THREAD, "run_id": "r", "trace_id": TRACE},
        ),
        (
            StoredRecord(orjson.dumps({"thread_id": "t", "run_id": 7, "traceparent": SPAN}), 7, 0, b"key"),
            {"thread_id": "t", "trace_id": TRACE},
        ),
        (StoredRecord(b"no JSON", 7, 0, b"key", [("traceparent", b"\xff")]), {"thread_id": "key"}),
        (StoredRecord(b'["a list"]', 7, 0, b"\xff"), {"thread_id": "\ufffd"}),
        (StoredRecord(b'"' + b"x" * 1_000_000 + b'"', 7, 0), {}),
        (StoredRecord(None, 7, 0), {}),  # a tombstone of somebody
    ],
)
def test_a_refused_record(record: StoredRecord, said: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    DeadLetterLog("events", Metrics())(3, Refused(record, Reason.INVALID_EVENT, "so it is"))
    (line,) = caplog.records
    assert line.getMessage() == "dead letter: invalid_event events/3@7: so it is"
    assert ids(line) == said


def test_each_turn_at_the_level_of_details_only(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    log.add(envelope(0, text("a"), end="aborted"), headers=headers(SPAN))
    for level, lines in ((logging.INFO, 0), (logging.DEBUG, 1)):
        partition = Partition(TOYS, Limits(), 0)
        partition.feed(log.records)
        with caplog.at_level(level, "pipeline.worker.assemble.metrics"):
            AssemblyMetrics(Metrics(), "events").count(3, partition, partition.out)
        assert len(caplog.records) == lines
    (line,) = caplog.records
    assert line.getMessage() == f"turn {partition.out.turns[0]['turn_id']}: interrupted (user_cancelled)"
    assert ids(line) == {"thread_id": THREAD, "run_id": "r", "trace_id": TRACE}
