"""A running `turnmill dev`, as a process with a home folder of its own."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.devbroker.ports import free_ports

WITHIN = 360.0  # seconds: it starts four programs, and a worker anew


class Dev:
    """A running `turnmill dev`, in a folder of its own."""

    def __init__(self, home: Path, **variables: str) -> None:
        broker, worker, self.port = free_ports(3)
        self.environment = {
            **os.environ,
            "TURNMILL_HOME": str(home),
            "TURNMILL_BROKERS": f"127.0.0.1:{broker}",
            "TURNMILL_PORT": str(worker),
            "TURNMILL_GATEWAY_PORT": str(self.port),
            "TURNMILL_PARTITIONS": "2",
            **variables,
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
