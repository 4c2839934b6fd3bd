"""The demo's own broker, worker and store, on free ports, in a folder of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pipeline.cli.dev.children import Child, spawn, variables
from pipeline.devbroker import local
from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.ports import free_ports
from pipeline.devbroker.processes import watchdog
from pipeline.settings import Settings
from turnmill.errors import CallerError
from turnmill.settings import PREFIX

Say = Callable[[str], None]


def settings_of_demo(base: Settings) -> Settings:
    """Return settings with free ports and a folder of its own, so that the demo touches no other broker or store.

    Without TURNMILL_HOME the folder is in the cache, since nobody expects a new one in the working directory.
    """
    broker, port = free_ports(2)
    cache = base.cache_folder
    home = (base.home if "home" in base.model_fields_set else cache).absolute() / "demo"
    mirror = base.model_dump(include={"maven_repository"}, exclude_unset=True)
    return Settings(home=home, cache=cache, brokers=f"127.0.0.1:{broker}", port=port, **mirror)


@contextmanager
def stage(settings: Settings, say: Say, *, keep: bool) -> Iterator[Callable[[], Child]]:
    """Start a broker in a fresh folder; yield a function that starts the worker.

    Both are stopped after the block; with `keep`, only if the block fails. Without `keep`, a watchdog stops them even
    if this process is killed.
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

        def start_worker() -> Child:
            log = settings.home / "worker.log"
            others = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
            environment = others | variables(settings)
            arguments = ["worker", "--processes", "1"]
            worker = spawn("worker", arguments, environment, port=settings.port, log=log, group=group)
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
