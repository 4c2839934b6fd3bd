"""The measurement of a store that grows: on a small one."""

from __future__ import annotations

from tests.bench import growth
from tests.bench.results import Suite
from tests.bench.tables import sheets


async def test_each_size_is_measured_with_and_without_indexes(tmp_path, monkeypatch):
    for name, value in {"SMALL": 40, "MEASURED": 20, "BATCH": 10}.items():
        monkeypatch.setattr(growth, name, value)
    shown = []
    found = await growth.both(tmp_path, None, 80, shown.append)
    assert [(one.indexes, one.turns) for one in found] == [
        ("bare", 20),
        ("bare", 60),
        *[(growth.INDEXED, n) for n in (20, 60)],
    ]
    assert all(one.client > 0 and one.size > one.json and one.server == 0 for one in found)
    assert shown[0] == "sqlite, bare: 0 turns"
    (sheet,) = sheets(Suite(growth=found))
    assert next(row[:3] for row in sheet.rows) == ("sqlite", "bare", "20")
