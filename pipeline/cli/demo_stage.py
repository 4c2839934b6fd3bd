"""The demo's own broker, worker and store, on free ports, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from pipeline.devbroker import local
from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.ports import free_ports
from pipeline.devbroker.processes import last_lines, watchdog
from pipeline.errors import BrokerError, CallerError
from pipeline.settings import Settings
from turnmill.settings import PREFIX

READY_WITHIN: Final = 60.0  # seconds; 3 are usual
STOP_WITHIN: Final = 25.0  # seconds; a worker gives itself 20

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker in a process of its own, with its log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def check(self) -> None:
        """Raise BrokerError where the process has ended, with the last lines of its log."""
        code = self.process.poll()
        if code is not None:
            raise BrokerError(f"the worker ended with exit status {code}:\n{last_lines(self.log)}")

    def wait_until_ready(self) -> None:
        """Return when /readyz answers 200. Raises BrokerError where the worker ends, or after READY_WITHIN."""
        deadline = time.monotonic() + READY_WITHIN
        reasons = "no answer"
        while time.monotonic() < deadline:
            self.check()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2):
                    return
            except urllib.error.HTTPError as error:
                reasons = "; ".join(json.loads(error.read())["reasons"])
            except OSError:
                pass
            time.sleep(0.1)
        raise BrokerError(f"the worker is not ready after {READY_WITHIN:.0f} s ({reasons}):\n{last_lines(self.log)}")

    def open_turns(self) -> int:
        """How many turns it assembles now, from its metrics."""
        self.check()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            samples = [sample for family in families for sample in family.samples]
        return int(sum(sample.value for sample in samples if sample.name == "turnmill_open_turns"))

    def stop(self) -> None:
        """Let the worker make its last checkpoint; kill it where it does not end within STOP_WITHIN."""
        self.process.terminate()
        try:
            self.process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def settings_of_demo(base: Settings) -> Settings:
    """Settings with free ports and an own folder, so that the demo touches no other broker or store; else defaults.

    Who has not named a folder does not look for a new one where the command was called: it is in the cache then.
    """
    broker, port = free_ports(2)
    cache = base.cache_folder
    home = (base.home if "home" in base.model_fields_set else cache).absolute() / "demo"
    return Settings(home=home, cache=cache, brokers=f"127.0.0.1:{broker}", port=port)


def variables(settings: Settings) -> dict[str, str]:
    """The environment that gives a process these settings."""
    names = [name for name in Settings.model_fields if name in settings.model_fields_set]
    return {PREFIX + name.upper(): str(getattr(settings, name)) for name in names}


@contextmanager
def stage(settings: Settings, say: Say, *, keep: bool) -> Iterator[Callable[[], Worker]]:
    """Start a broker in a fresh folder -> a function that starts the worker. Both end with the block; with `keep`, only
    where the block fails. Without `keep`, a watchdog ends them even where this process is killed.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(settings.home.with_name("demo.lock"), wait=False))
        except BlockingIOError:
            raise CallerError(
                f"another demo is running in {settings.home}: wait for it, or set {PREFIX}HOME to another folder"
            ) from None
        _make_room(settings)
        group = None
        if keep:
            local.start(settings, 1, progress=say)
            stack.callback(local.stop, settings)
        else:
            stack.enter_context(local.running(settings, 1, progress=say))
            group = stack.enter_context(watchdog())

        def start_worker() -> Worker:
            worker = _start(settings, group)
            stack.callback(worker.stop)
            worker.wait_until_ready()
            return worker

        yield start_worker
        if keep:
            stack.pop_all()


def _make_room(settings: Settings) -> None:
    if any(local.status(settings).values()):
        raise CallerError(
            f"a demo that was kept is still running: {PREFIX}HOME={settings.home} turnmill down stops its broker"
        )
    if settings.home.exists():
        if not (settings.home / "kafka").is_dir():
            raise CallerError(f"{settings.home} is not of a demo: move it away, or set {PREFIX}HOME to another folder")
        shutil.rmtree(settings.home)


def _start(settings: Settings, group: int | None) -> Worker:
    log = settings.home / "worker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "worker", "--processes", "1"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(settings),
            process_group=group,
            start_new_session=group is None,
        )
    return Worker(process, settings.port, log)


def _environment(settings: Settings) -> Mapping[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return others | variables(settings)
