"""That Ctrl-C ends a measurement of an hour with what was measured by then."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.bench import in_process
from tests.bench.command import bench
from tests.bench.in_process import InProcess
from tests.bench.loads import Load


def test_ctrl_c_leaves_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def measure(load: Load, dialect: str) -> InProcess:
        if len(measured) == 1:
            raise KeyboardInterrupt
        measured.append(dialect)
        return InProcess(load.name, dialect, 1_000_000, 250_000)

    monkeypatch.setattr(in_process, "measure", measure)
    page = tmp_path / "benchmark.md"
    page.write_text("Before.\n\n<!-- measured -->\n\nold\n\n<!-- end -->\n\nAfter.\n")
    done = CliRunner().invoke(bench, ["--only", "assembly", "--into", str(page)])
    assert done.exit_code == 1
    written = page.read_text()
    assert f"| {measured[0]} | text-1 | 250,000 | 0.25 |" in written
    assert "Failed: what was to come: stopped by Ctrl-C" in written
    assert written.startswith("Before.")
    assert written.endswith("After.\n")
    assert "old" not in written
