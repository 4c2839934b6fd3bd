"""The benchmark of the archive's tables, small."""

from pathlib import Path

import pytest

from tests.bench import lake


async def test_each_step_writes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("DAYS", 5), ("SEGMENT", 20), ("SEGMENTS", 2), ("OLD", 5), ("ERASED", 10)):
        monkeypatch.setattr(lake, name, value)
    shown: list[str] = []
    steps = await lake.measure(tmp_path, 100, shown.append)
    assert [one.turns for one in steps] == [40, 40, 40, 40, 5, 100, 100, 100]
    assert all(one.cost > 0 for one in steps)
    state = await lake._lake(tmp_path / "full").state()
    assert state["turns"].rows == state["usage"].rows
    assert 100 < state["turns"].rows < 124 + 40
