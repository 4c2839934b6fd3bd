"""The publishing thread of a whole process, for hooks, transports and helpers of frameworks.

The thread starts with the first call or run, and ends with the program, after at most some seconds. A forked process
gets a new one. Nothing here raises into the program: failures are logged, and the call or run is not published.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from turnmill.capture.fitting import json_of
from turnmill.capture.passing import Call, CapturedCall
from turnmill.capture.process_end import PROGRAM, before_exit, listen
from turnmill.capture.providers import Known, Providers, asks_a_model
from turnmill.errors import TurnmillError
from turnmill.loop_thread import LoopThread

if TYPE_CHECKING:  # loaded before the first call
    from turnmill.capture.capture import Capture
    from turnmill.capture.runs import PassingRun, Runs
    from turnmill.publish.publisher import Publisher
    from turnmill.settings import ClientSettings

LOADED: Final = (
    "turnmill.publish.delivery",
    "turnmill.publish.run_info",
    "turnmill.publish.spool",
)  # modules that a publisher loads later
END_TIMEOUT: Final = 6.0  # seconds for publishing when the program ends
KEEP_AFTER: Final = 2.0  # of these, seconds to wait for the broker; then the rest stays in the spool

Result = TypeVar("Result")

log = logging.getLogger("turnmill.capture")


class Runtime:
    """The runtime of a process. `settings`: by default read from the environment when the first client is made."""

    def __init__(self, settings: ClientSettings | None = None) -> None:
        self._settings = settings
        self._lock = Lock()
        self._providers: Providers | None = None
        self._publisher: Publisher | None = None
        self._capture: Capture | None = None
        self._runs: Runs | None = None
        self._loop: LoopThread | None = None
        self._begun = Event()
        self._ending = asyncio.Event()
        self._broken = False
        self.seen = 0  # calls of models that are captured
        self.missed: Counter[str] = Counter()  # and those that are not, by the reason

    def prepare(self) -> None:
        """Load the modules for publishing, and read the settings; only once.

        A program does this when it makes a client, so that its first call isn't slower.
        """
        if self._providers is not None or self._broken:
            return
        with self._lock:
            if self._providers is None:
                try:
                    listen()
                    self._load()
                except Exception:
                    self._broken = True
                    log.exception("model calls are not captured")

    def _load(self) -> None:
        for module in LOADED:
            import_module(module)
        from turnmill.capture.capture import Capture  # noqa: PLC0415  # they load pydantic
        from turnmill.capture.runs import Runs  # noqa: PLC0415
        from turnmill.environment import load_settings  # noqa: PLC0415
        from turnmill.publish.publisher import Publisher  # noqa: PLC0415

        settings = self._settings or load_settings()
        # If the program configures no logging, aiokafka's repeated messages are dropped; ours reports the same once.
        logging.getLogger("aiokafka").addHandler(logging.NullHandler())
        import_module(
            "turnmill.kafka.producer" if settings.publish_url is None else "turnmill.publish.gateway_producer"
        )
        self._publisher = Publisher(settings, keep_after=KEEP_AFTER)
        self._capture = Capture(self._publisher, agent_id=settings.capture_agent or program_name())
        self._runs = Runs(self._publisher)
        self._providers = Providers(settings.captured_hosts)

    def begin(
        self,
        method: str,
        host: str,
        port: int | None,
        path: str,
        request: Callable[[], tuple[Mapping[str, str], bytes]],
    ) -> CapturedCall | None:
        """Begin the capture of a request; return None if it goes to no model.

        `path`: without the query. `request`: returns its headers, with names in lower case, and its body; it is called
        only for a request to a model.
        """
        try:
            self.prepare()
            known = None if self._providers is None else self._providers.known(method, host, port, path)
            return None if known is None else self.capture(known, path, *request())
        except Exception:
            if not self._broken:
                self._broken = True
                log.exception("model calls are not captured")
            return None

    @property
    def hears(self) -> bool:
        """Return True if runs receive commands, as to stop."""
        return self._publisher is not None and self._publisher.hears

    def run(self, **identity: Any) -> PassingRun:
        """Begin a run of a framework, published in the same thread; the arguments are those of Publisher.run."""
        from turnmill.capture.runs import PassingRun  # noqa: PLC0415  # as above

        try:
            self.prepare()
            if self._runs is not None and not self._broken:
                if self._loop is None:
                    self._start()
                return self._runs.begin(**identity)
        except Exception:
            if not self._broken:
                self._broken = True
                log.exception("runs are not published")
        return PassingRun(None, identity)

    def capture(self, known: Known, path: str, headers: Mapping[str, str], body: bytes) -> CapturedCall | None:
        """Begin the capture of a request of this provider and wire; return None if nothing is captured any more."""
        if not known.sure and not asks_a_model(known.dialect, path, json_of(body)):
            return None
        if not known.sure and path.startswith("/proxy/"):
            self.missed[f"published by the gateway's proxy at {known.provider}"] += 1
            return None
        if self._capture is None or self._broken:
            self.missed["capture has failed, or has ended: see the log of turnmill.capture"] += 1
            return None
        if self._loop is None:
            self._start()
        call = self._capture.begin(Call(known.provider, known.dialect, path, headers, body))
        self.seen += not call.ended
        self.missed["there were more than the publisher keeps up with"] += call.ended
        return call

    def _start(self) -> None:
        with self._lock:
            if self._loop is None:
                self._loop = LoopThread("turnmill-capture", self._publish(), _SameThread())
                before_exit(self.stop)

    async def _publish(self) -> None:
        assert self._publisher is not None  # they were prepared
        assert self._capture is not None
        assert self._runs is not None
        try:
            async with self._publisher, self._capture, self._runs:
                self._begun.set()
                await self._ending.wait()
        except Exception:
            self._broken = True
            log.exception("model calls are not captured")
        finally:
            self._begun.set()
            self.abandon()

    def stop(self, within: float = END_TIMEOUT) -> None:
        """Publish everything so far, for at most `within` seconds, and end the thread. Later calls are not captured."""
        self._broken = True
        if self._loop is not None and self._loop.is_alive():
            self._begun.wait(within)
            self._loop.call_soon(self._ending.set)
            self._loop.join(within)

    def flush(self, within: float = END_TIMEOUT) -> None:
        """See the function `flush`."""
        if self._loop is None or not self._loop.is_alive():
            return
        self._begun.wait(within)
        try:
            self._loop.wait_for(self._kept(within), within)
        except (CancelledError, RuntimeError, TimeoutError, TurnmillError) as error:  # the loop may end meanwhile
            log.warning("not all that was said is published yet: %r", error)

    async def _kept(self, within: float) -> None:
        assert self._publisher is not None  # as above
        assert self._capture is not None
        assert self._runs is not None
        await self._capture.read()
        await self._runs.read()
        await self._publisher.kept(within)

    def summary(self) -> str | None:
        """Return what became of the calls of models; None if nobody has to know."""
        report = None if self._publisher is None else self._publisher.report()
        missed = [f"{count} not captured ({why})" for why, count in self.missed.items() if count]
        left = 0 if report is None else report.waiting + report.spooled
        kept = [f"{left} waiting on disk for the next program here: {report.trouble}"] if report and left else []
        kept += [f"{report.refused} refused"] if report and report.refused else []
        if not (missed or kept or (PROGRAM in os.environ and self.seen)):
            return None
        return "; ".join([f"calls of models: {self.seen} captured", *missed, *kept])

    def abandon(self) -> None:
        """Accept nothing more, since the thread has ended, or belongs to the process that this one was forked from."""
        if self._capture is not None:
            self._capture.shut()
        if self._runs is not None:
            self._runs.shut()


class _SameThread(ThreadPoolExecutor):
    """Runs our loop's calls at once, in the same thread: while a program ends, no thread can start."""

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        done: Future[Result] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


_of_process: list[Runtime] = [Runtime()]


def runtime() -> Runtime:
    """Return the runtime of this process."""
    return _of_process[0]


def flush(within: float = END_TIMEOUT) -> None:
    """Wait until the broker or the spool has everything captured so far, for at most `within` seconds.

    For a server that is about to end, and for a function that is frozen between two requests.
    """
    runtime().flush(within)


def restart(settings: ClientSettings | None = None) -> Runtime:
    """End the runtime of this process, and begin another. Return the new one."""
    _of_process[0].stop()
    _of_process[0] = Runtime(settings)
    return _of_process[0]


def _forked() -> None:
    _of_process[0].abandon()
    _of_process[0] = Runtime(_of_process[0]._settings)  # noqa: SLF001  # of this module's class


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def program_name() -> str:
    """Return the running program's name: the module of `python -m`, or the file's name without its suffix."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name.removesuffix(".__main__"))
    return Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c") else "python").stem or "python"
