"""The processes of `turnmill dev`: a broker, a worker and a gateway on this machine, and killing the worker on request.

All state is in TURNMILL_HOME, so the next `dev` continues where this one ended. The gateway shows the recovery after a
kill from the file that `Kills` writes, and requests a kill by SIGUSR1 (`pipeline/gateway/serving/dev.py`).
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from pipeline.cli.dev.broker import Child, spawn
from pipeline.cli.output import many
from pipeline.devbroker import local
from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.ports import bindable
from pipeline.devbroker.processes import watchdog
from pipeline.kafka.admin import apply_topics
from pipeline.kafka.offsets import PartitionLag, group_lag
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.worker.host.roles import default_roles
from pipeline.worker.repair.ledger import take_stock
from turnmill.clock import now_ms
from turnmill.errors import CallerError, TurnmillError

PROXIED: Final = "openai,anthropic,google"  # upstreams of the gateway's proxy if TURNMILL_GATEWAY_PROXY is not set
SESSION: Final = "6"  # seconds until a killed worker loses its partitions: the least that Kafka allows
KILLS: Final = "kills.json"
MAX_KILLS: Final = 5  # kills that are kept
POLL_INTERVAL: Final = 0.3  # seconds
MAX_ATTEMPTS: Final = 20

Say = Callable[[str, str], None]  # (what, details)


@dataclass(slots=True)
class Stage:
    """The running processes. `url`: the gateway's; `worker`: a new process after each kill."""

    settings: Settings
    worker: Child
    gateway: Child
    start_worker: Callable[[], Child]

    @property
    def url(self) -> str:
        """The address of the dashboard."""
        return f"http://127.0.0.1:{self.gateway.port}/"


def check_local(settings: Settings) -> None:
    """Raise CallerError unless all brokers are on this machine, since `dev` kills processes and starts a broker."""
    if away := settings.brokers_elsewhere:
        here = "`turnmill dev` runs a broker of its own on this machine"
        raise CallerError(f"{here}, {away[0]} is elsewhere: unset TURNMILL_BROKERS")
    if settings.security_protocol != "PLAINTEXT":
        raise CallerError("the development broker has neither TLS nor logins: unset TURNMILL_SECURITY_PROTOCOL")


@contextmanager
def stage(settings: Settings, say: Say) -> Iterator[Stage]:
    """Start everything; stop it after the block, except a broker that ran before.

    A watchdog stops all processes even if this one is killed. Raises CallerError if something prevents the start.
    """
    home = settings.home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(home / "dev.lock", wait=False))
        except BlockingIOError:
            where = f"http://127.0.0.1:{settings.gateway_port}/"
            raise CallerError(f"`turnmill dev` runs already in {home}, with its dashboard at {where}") from None
        for name, port in (("TURNMILL_GATEWAY_PORT", settings.gateway_port), ("TURNMILL_PORT", settings.port)):
            if not bindable("127.0.0.1", port):
                raise CallerError(f"port {port} is in use by another program: stop that, or set {name} to another port")
        began = time.monotonic()
        nodes = local.status(settings)
        before = any(nodes.values())
        cluster = local.start(settings) if before else stack.enter_context(local.running(settings, len(nodes) or 1))
        asyncio.run(apply_topics(settings))
        say("Kafka", f"{cluster.bootstrap}{', which ran already' if before else ''} ({time.monotonic() - began:.1f} s)")
        group = stack.enter_context(watchdog())
        defaults = {"TURNMILL_GATEWAY_PROXY": PROXIED, "TURNMILL_SESSION_TIMEOUT": SESSION}
        environment = {**defaults, **os.environ, "TURNMILL_HOME": str(home)}

        def start(name: str, arguments: list[str], port: int) -> Child:
            log = home / "dev" / f"{name}.log"
            return spawn(name, arguments, environment, port=port, log=log, group=group)

        def start_worker() -> Child:
            return start("worker", ["worker", "--processes", "1"], settings.port)

        gateway = start("gateway", ["gateway", "--dev", str(home / "dev")], settings.gateway_port)
        stack.callback(gateway.stop)
        running = Stage(settings, start_worker(), gateway, start_worker)
        stack.callback(lambda: running.worker.stop())  # noqa: PLW0108  # that after the last kill
        running.worker.wait_until_ready()
        say("worker", f"{', '.join(role.name for role in default_roles(settings))} ({time.monotonic() - began:.1f} s)")
        gateway.wait_until_ready()
        say("gateway", f"{running.url} ({time.monotonic() - began:.1f} s)")
        yield running


@dataclass(slots=True)
class Kill:
    """A kill of the worker, and the recovery so far, described in `words`."""

    at: int  # epoch ms
    words: str = ""
    recovered: bool = False


@dataclass(slots=True)
class Kills:
    """Kills the worker of a stage, starts another, and reports the recovery in the folder `dev` of TURNMILL_HOME."""

    stage: Stage
    say: Callable[[str], None]
    _all: list[Kill] = field(default_factory=list)
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _stopping: bool = False

    @property
    def file(self) -> Path:
        """The file from which the gateway reads the kills."""
        return self.stage.settings.home.absolute() / "dev" / KILLS

    @property
    def under_way(self) -> bool:
        """True while the recovery from a kill goes on."""
        return self._busy.locked()

    def stop(self) -> None:
        """Report no more of a kill under way, since the stage is being stopped."""
        self._stopping = True

    def kill(self) -> None:
        """Kill the worker as a power cut would, and watch the recovery in a thread; one kill at a time."""
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._recovery, daemon=True).start()

    def _recovery(self) -> None:
        try:
            self._kill()
        except (TurnmillError, OSError) as error:
            if not self._stopping:
                self._tell(f"It did not recover: {error}")
        finally:
            self._busy.release()

    def _kill(self) -> None:
        settings, worker = self.stage.settings, self.stage.worker
        open_runs = worker.open_turns()
        self._all = [Kill(now_ms()), *self._all][:MAX_KILLS]
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        began = time.monotonic()
        self._tell(f"Killed a worker (SIGKILL) with {many(open_runs, 'half-finished run')} in its memory.")
        self.stage.worker = self.stage.start_worker()
        ends = {(row.topic, row.partition): row.end for row in asyncio.run(lags(settings))}
        self.stage.worker.wait_until_ready()
        self._tell(f"Another one was ready after {time.monotonic() - began:.1f} s.")
        # Until every role has committed the records that were on its topic at the kill.
        while any(
            (row.committed or row.begin) < ends.get((row.topic, row.partition), 0)
            for row in asyncio.run(lags(settings))
        ):
            time.sleep(POLL_INTERVAL)
        self._tell(f"All that had waited was read {time.monotonic() - began:.1f} s after the kill.")
        balance = asyncio.run(_balance(settings, self.stage.worker))
        self._all[0].recovered = True
        self._tell(balance)

    def _tell(self, words: str) -> None:
        if self._stopping:
            return
        self.say(words)
        self._all[0].words = f"{self._all[0].words} {words}".strip()
        draft = self.file.with_suffix(".new")
        draft.write_bytes(orjson.dumps(self._all))
        draft.replace(self.file)


async def lags(settings: Settings) -> list[PartitionLag]:
    """Return how far each role has read, in the order of the roles."""
    return [
        row for role in default_roles(settings) for row in await group_lag(settings, role.group(settings), [role.topic])
    ]


async def _balance(settings: Settings, worker: Child) -> str:
    """Return the ledger in words.

    It balances if its open runs are exactly those that the worker is assembling. While agents go on, the two are
    counted at different moments, so it is tried several times.
    """
    async with await ThreadStore.open(settings.store_url) as store:
        for _ in range(MAX_ATTEMPTS):
            ledger, assembled = await take_stock(settings, store), worker.open_turns()
            if ledger.open == assembled:
                break
    parts = f"{ledger.stored:,} stored + {ledger.dead:,} dead letters + {ledger.open:,} open"
    more = f" + {ledger.erased:,} deleted" if ledger.erased else ""
    known = "nothing is lost" if ledger.open == assembled else f"the worker assembles {assembled:,} at the moment"
    return f"{ledger.runs:,} runs on the topic = {parts}{more}: {known}."
