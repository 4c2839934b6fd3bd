"""The metrics role counts each record once, and passes over what it can't count."""

from typing import Any

import pytest

from pipeline.assembly.records import StoredRecord
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.observability.telemetry_meter import TelemetryMeter
from pipeline.settings import Settings
from pipeline.worker.sinks.metrics import metrics_work
from topics import telemetry


async def test_a_record_that_can_not_be_counted_does_not_hold_up_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    take = TelemetryMeter.take

    def fails(meter: TelemetryMeter, record: Any) -> None:
        if record["run_id"] == "bad":
            raise OverflowError
        take(meter, record)

    monkeypatch.setattr(TelemetryMeter, "take", fails)
    metrics = Metrics(10)
    made: Any = [
        {"v": 1, "type": "data-sys-usage", "thread_id": "t", "run_id": run_id, "seq": 0, "data": {}}
        for run_id in ("good", "bad", "better")
    ]
    records = [StoredRecord(telemetry.encode(one), offset, 0) for offset, one in enumerate(made)]
    work = metrics_work(Settings(), metrics, None)  # type: ignore[arg-type]  # it produces nothing
    group: Any = [*records, StoredRecord(b"rubbish", 3, 0)]  # they have all that the work reads
    await work.apply([(0, group)])
    value = metrics.registry.get_sample_value
    assert value(m.TELEMETRY_RECORDS.name, {"type": "data-sys-usage"}) == 2
    assert value(m.TELEMETRY_MALFORMED.name, {"type": "unknown"}) == 1
