import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.waiting import PATIENCE

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"


def beside(log: Path, behind: str, before: str) -> subprocess.Popen[str]:
    """Start both, each a program of Python."""
    programs = (sys.executable, "-c", behind, "--", sys.executable, "-c", before)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.beside", log, *programs],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(("behind", "before", "status"), [(0, 0, 0), (3, 0, 3), (0, 5, 5), (3, 5, 5)])
def test_each_fails_both(tmp_path: Path, behind: int, before: int, status: int) -> None:
    process = beside(tmp_path / "log", f"print('x\\ny'); raise SystemExit({behind})", f"raise SystemExit({before})")
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, errors
    assert out == "\nx\ny\n"


@pytest.fixture
def interrupts() -> Iterator[None]:
    """They end programs, also where a shell has started the tests in its background, so that these ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both(tmp_path: Path, by: signal.Signals) -> None:
    process = beside(tmp_path / "log", f"print(__import__('os').getpid(), flush=True); {SLEEPS}", SLEEPS)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    os.killpg(process.pid, by)  # as the terminal does
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + by
    lines = (tmp_path / "log").read_text().split()
    assert not lines or not Path(f"/proc/{lines[0]}").exists()
