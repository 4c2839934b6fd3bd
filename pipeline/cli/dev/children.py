"""The processes that the demo and `turnmill dev` start; they log to files, and are ready when they answer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from pipeline.devbroker.processes import last_lines
from turnmill.errors import BrokerError

READY_TIMEOUT: Final = 60.0  # seconds; 3 are usual
STOP_TIMEOUT: Final = 25.0  # seconds; a worker's own limit is 20


@dataclass(frozen=True, slots=True)
class Child:
    """A worker or a gateway in a process of its own. `port`: where it answers `/readyz` and `/metrics`."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def check(self) -> None:
        """Raise BrokerError with the last lines of its log if the process has ended."""
        code = self.process.poll()
        if code is not None:
            raise BrokerError(f"the {self.name} ended with exit status {code}:\n{last_lines(self.log)}")

    def ready(self) -> str | None:
        """Return None if /readyz answers 200, else the reason. Raises BrokerError if the process has ended."""
        self.check()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2):
                return None
        except urllib.error.HTTPError as error:
            return "; ".join(json.loads(error.read())["reasons"])
        except OSError:
            return "no answer"

    def wait_until_ready(self) -> None:
        """Wait until it is ready. Raises BrokerError if the process ends, or after READY_TIMEOUT."""
        deadline = time.monotonic() + READY_TIMEOUT
        while (reasons := self.ready()) is not None:
            if time.monotonic() > deadline:
                after = f"after {READY_TIMEOUT:.0f} s ({reasons})"
                raise BrokerError(f"the {self.name} is not ready {after}:\n{last_lines(self.log)}")
            time.sleep(0.1)

    def open_turns(self) -> int:
        """Return the number of turns that a worker is assembling, from its metrics."""
        self.check()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            samples = [sample for family in families for sample in family.samples]
        return int(sum(sample.value for sample in samples if sample.name == "turnmill_open_turns"))

    def stop(self) -> None:
        """Stop it in an orderly way; kill it if it does not end within STOP_TIMEOUT."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def spawn(
    name: str, arguments: Sequence[str], environment: Mapping[str, str], *, port: int, log: Path, group: int | None
) -> Child:
    """Start `turnmill ARGUMENTS`. `group`: the process group of a watchdog, None for a session of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "pipeline", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            process_group=group,
            start_new_session=group is None,
        )
    return Child(name, process, port, log)
