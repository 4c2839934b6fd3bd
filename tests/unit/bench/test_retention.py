"""The measurement of how long writers wait while turns expire: on a small store, each part for a moment."""

import pytest

from tests.bench import retention
from tests.bench.results import Suite
from tests.bench.tables import sheets


async def test_a_backlog_expires_while_turns_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "SECONDS", 0.7)
    shown = []
    found = await retention.both(tmp_path, None, 20, shown.append)
    assert [one.what for one in found] == [what for what, _ in retention.PARTS]
    assert [one.expired for one in found] == [0, 0, 20]
    assert found[2].rate == pytest.approx(20 / 0.7)
    assert all(one.ms and one.ms == sorted(one.ms) for one in found)
    assert shown[-1] == "transactions of 20 turns, sqlite: a backlog expires"
    (sheet,) = sheets(Suite(expiries=found))
    assert [row[:3] for row in sheet.rows] == [(one.what, "sqlite", "20") for one in found]
