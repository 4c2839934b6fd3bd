"""`turnmill dev`: everything starts, a kill loses nothing, Ctrl-C ends it, and the next start goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.devbroker.ports import free_ports

WITHIN = 180.0  # seconds


class Dev:
    """A running `turnmill dev`, in a folder of its own."""

    def __init__(self, home: Path) -> None:
        broker, worker, self.port = free_ports(3)
        self.environment = {
            **os.environ,
            "TURNMILL_HOME": str(home),
            "TURNMILL_BROKERS": f"127.0.0.1:{broker}",
            "TURNMILL_PORT": str(worker),
            "TURNMILL_GATEWAY_PORT": str(self.port),
            "TURNMILL_PARTITIONS": "2",
        }
        self.log = home.with_suffix(".log")

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        with self.log.open("wb") as output:
            process = subprocess.Popen(self.command(*options), env=self.environment, stderr=output)
        try:
            self.until(lambda: "Dashboard" in self.log.read_text() or process.poll() is not None)
            assert process.poll() is None, self.log.read_text()
            yield process
        finally:
            process.kill()
            process.wait()

    @staticmethod
    def command(*options: str) -> list[str]:
        return [sys.executable, "-m", "pipeline", "dev", *options]

    def refused(self, **more: str) -> str:
        """-> what a call says that can't work; it ends with status 2."""
        done = subprocess.run(self.command(), env=self.environment | more, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stderr

    def ask(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def until(self, look: Callable[[], object]) -> None:
        deadline = time.monotonic() + WITHIN
        while not look():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)


def test_a_kill_loses_nothing_and_the_next_start_goes_on(tmp_path: Path) -> None:
    dev = Dev(tmp_path / "home")
    with dev.running("--fleet") as process:
        dev.until(lambda: dev.ask("/v1/status")["store"]["turns"])
        assert f"runs already in {tmp_path / 'home'}" in dev.refused()
        dev.ask("/v1/dev/kills", "POST")
        dev.until(lambda: dev.ask("/v1/dev/kills"))
        dev.until(lambda: dev.ask("/v1/dev/kills")[0]["recovered"])
        dev.until(lambda: "runs on the topic" in dev.log.read_text())
        assert "It did not recover" not in dev.log.read_text()
        stored = dev.ask("/v1/status")["store"]["turns"]
        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN) == 0
    with dev.running():
        assert dev.ask("/v1/status")["store"]["turns"] >= stored


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    dev = Dev(tmp_path / "home")
    with socket.create_server(("127.0.0.1", dev.port)):
        said = dev.refused()
    assert f"port {dev.port} is in use by another program" in said
    assert "TURNMILL_GATEWAY_PORT" in said


@pytest.mark.parametrize("brokers", ["kafka.example.com:9092", "127.0.0.1:9092,10.0.0.1:9092"])
def test_it_refuses_brokers_of_other_machines(tmp_path: Path, brokers: str) -> None:
    assert "unset TURNMILL_BROKERS" in Dev(tmp_path / "home").refused(TURNMILL_BROKERS=brokers)


def test_a_missing_java_is_said(tmp_path: Path) -> None:
    hidden = {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    assert "Java" in Dev(tmp_path / "home").refused(**hidden)
