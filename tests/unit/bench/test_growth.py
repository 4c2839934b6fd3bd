"""The measurement of a store that grows: on a small one."""

from tests.bench import growth
from tests.bench.results import Suite
from tests.bench.tables import sheets


async def test_each_size_is_measured_with_and_without_indexes(tmp_path, monkeypatch):
    for name, value in {"SMALL": 40, "MEASURED": 20, "BATCH": 10, "SUMMED": 20}.items():
        monkeypatch.setattr(growth, name, value)
    shown = []
    found = await growth.both(tmp_path, None, 80, shown.append)
    assert [(one.indexes, one.turns) for one in found] == [
        ("bare", 20),
        ("bare", 60),
        *[(growth.INDEXED, n) for n in (20, 60)],
    ]
    assert all(one.client > 0 and one.size > 0 and one.server == 0 and one.count > 0 for one in found)
    assert shown[0] == "sqlite, bare: 0 turns"
    measured, wanted = sheets(Suite(growth=found))
    assert next(row[:3] for row in measured.rows) == ("sqlite", "bare", "20")
    assert [row[0] for row in wanted.rows] == [
        "CPU a turn at 60 turns, by that at 20, sqlite, bare",
        "bytes a turn at 60 turns, sqlite, bare",
        "CPU a turn at 60 turns, by that at 20, sqlite, search and sums",
        "bytes a turn at 60 turns, sqlite, search and sums",
    ]
