"""However the demo ends, nothing of it stays behind; from start to end it runs in test_wheel.py."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.devbroker.ports import bindable
from tests.support.places import CACHE
from tests.support.waiting import PATIENCE, wait_for
from turnmill.addresses import host_port
from turnmill.kafka.probe import ask

COMMAND = [sys.executable, "-m", "pipeline", "demo"]


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TURNMILL_HOME": str(tmp_path), "TURNMILL_CACHE": str(CACHE)}


@pytest.fixture
def running_demo(variables: dict[str, str], tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A demo of more runs than it gets through, when its worker is up: the process, its broker, its worker."""
    log = tmp_path / "steps.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*COMMAND, "--runs", "50000"],
            env=variables,
            stderr=output,
            preexec_fn=_listen_to_interrupts,  # noqa: PLW1509  # no other thread holds a lock that it would need
        ) as demo,
    ):
        try:

            def publishing() -> str:
                text = log.read_text()
                assert demo.poll() is None, text
                return text if "publishing" in text else ""

            text = wait_for(publishing, log.read_text)
            broker = re.search(r"starting Kafka on (\S+)", text)
            worker = re.search(r"http://([\d.:]+)/metrics", text)
            assert broker
            assert worker
            assert ask(broker[1]) is not None
            yield demo, broker[1], worker[1]
        finally:
            demo.kill()


def _listen_to_interrupts() -> None:
    """A shell that runs the tests in the background has their processes ignore SIGINT, and so their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def nobody_listens(*addresses: str) -> bool:
    """Wait until all of these are free."""
    return wait_for(lambda: all(bindable(*host_port(address)) for address in addresses))


def test_a_second_one_in_the_same_folder_says_so_and_a_kill_leaves_nothing(
    variables: dict[str, str], running_demo: tuple[subprocess.Popen[str], str, str]
) -> None:
    demo, broker, worker = running_demo
    second = subprocess.run(COMMAND, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (second.returncode, "another demo is running" in second.stderr) == (2, True), second.stderr
    assert demo.poll() is None
    assert ask(broker) is not None
    demo.kill()
    assert demo.wait(PATIENCE) == -signal.SIGKILL
    assert nobody_listens(broker, worker)


def test_an_interrupt_leaves_nothing(running_demo: tuple[subprocess.Popen[str], str, str]) -> None:
    demo, broker, worker = running_demo
    demo.send_signal(signal.SIGINT)
    assert demo.wait(PATIENCE) == 130
    assert nobody_listens(broker, worker)


def test_a_folder_of_somebody_else_is_left_alone(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "slides.txt").write_text("mine")
    done = subprocess.run(COMMAND, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, "is not of a demo" in done.stderr) == (2, True)
    assert (tmp_path / "demo" / "slides.txt").read_text() == "mine"
