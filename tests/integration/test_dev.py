"""`turnmill dev`: everything starts, a kill loses nothing, Ctrl-C ends it, and the next start goes on where it was."""

import signal
import socket
from pathlib import Path

import pytest

from tests.support.dev import WITHIN, Dev


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
