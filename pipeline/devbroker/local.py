"""The development broker: real Apache Kafka in KRaft mode, one process or three, under TURNMILL_HOME.

`start` and `stop` implement `turnmill up` and `down`; `running` is for tests and the demo: its brokers end with the
block, and with the process, however that dies. The whole state of a cluster is in <home>/kafka:

    cluster.json                    its id and the addresses of its latest start
    node-N/server.properties, data/, server.log, pid
"""

import json
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.devbroker import processes
from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.jars import Progress, jars
from pipeline.devbroker.java import java
from pipeline.devbroker.ports import check_listenable, free_ports, next_addresses
from pipeline.devbroker.processes import BOOTSTRAP, Launcher, last_lines, new_id, pid_of
from pipeline.devbroker.properties import Node, render, server_properties
from pipeline.settings import Settings
from turnmill.addresses import host_port
from turnmill.errors import BrokerError, CallerError
from turnmill.kafka.probe import ask

READY_TIMEOUT = 120.0  # seconds; 3 to 6 are usual, but a busy machine needs many more
SIZES = (1, 3)


def silent(_: str) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A development cluster. `started`: the ids of the nodes that this call started; empty if all ran already."""

    cluster_id: str
    nodes: tuple[Node, ...]
    launcher: Launcher
    started: tuple[int, ...] = ()

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, as TURNMILL_BROKERS takes them."""
        return ",".join(node.address for node in self.nodes)

    def kill(self, index: int) -> None:
        """Kill a broker, as a power cut would."""
        processes.kill([self.nodes[index]], signal.SIGKILL, processes.STOP_TIMEOUT)

    def restart(self, index: int) -> None:
        """Start a broker that was killed, on its address, and wait until all are ready again."""
        self.launcher.start(self.nodes[index])
        self.wait()

    def wait(self, within: float = READY_TIMEOUT) -> None:
        """Wait until each running broker sees all running ones. Raises BrokerError if one ends, or time is up."""
        running = [node for node in self.nodes if pid_of(node) is not None]
        expected = {node.id for node in running}
        deadline = time.monotonic() + within
        for node in running:
            while True:
                answer = ask(node.address)
                if answer and expected.issubset(answer.brokers) and answer.controller >= 0:
                    break
                if pid_of(node) is None:
                    raise BrokerError(f"broker {node.id} ended while it was starting:\n{last_lines(node.log)}")
                if time.monotonic() > deadline:
                    after = f"after {within:.0f} s"
                    raise BrokerError(f"broker {node.id} was not ready {after}:\n{last_lines(node.log)}")
                time.sleep(0.05)


def start(
    settings: Settings,
    brokers: int | None = None,
    *,
    progress: Progress = silent,
    extra: Mapping[str, str] | None = None,
    group: int | None = None,
) -> Cluster:
    """Start the cluster and leave it running. Running nodes are left as they are; dead ones are started again.

    `brokers` is 1 or 3; None: as many as last time, at first 1. `extra`: see properties.server_properties. `group`: see
    Launcher. Raises CallerError if something is missing or blocks the start, BrokerError if Kafka fails.
    """
    folder = _folder(settings)
    with locked(folder / "lock"):
        known = _read(folder)
        count = brokers or (len(known[1]) if known else 1)
        if count not in SIZES:
            raise CallerError(f"a development cluster has 1 or 3 brokers, not {count}")
        if known and len(known[1]) != count:
            raise CallerError(
                f"{folder} holds the data of a cluster of {len(known[1])}: start it with --brokers {len(known[1])}, "
                "or `turnmill down` and delete that folder (and so its topics) to begin anew"
            )
        first = settings.broker_list[0]
        cluster_id = known[0] if known else new_id()
        if known and any(pid_of(node) for node in known[1]):
            nodes = known[1]
            if nodes[0].address != first:
                raise CallerError(
                    f"the development broker runs already, on {nodes[0].address}; TURNMILL_BROKERS says {first}: "
                    "`turnmill down` stops it"
                )
        else:
            check_listenable(first)
            nodes = _plan(folder, first, count)
        libs = jars(settings.cache_folder, settings.maven_repository, progress)
        kept = libs / BOOTSTRAP if libs.parent == settings.cache_folder else None  # a KAFKA_HOME isn't written to
        launcher = Launcher(java(), libs, 512 if count == 1 else 384, group, kept)
        missing = [node for node in nodes if pid_of(node) is None]
        cluster = Cluster(cluster_id, nodes, launcher, tuple(node.id for node in missing))
        _write(folder, cluster_id, nodes)
        for node in missing:
            node.properties.write_text(render(server_properties(node, nodes, extra)))
        progress(f"starting Kafka on {cluster.bootstrap}")
        try:
            launcher.format(missing, cluster_id)
            for node in missing:
                launcher.start(node)
            cluster.wait()
        except BaseException:
            processes.stop(missing)
            raise
        return cluster


def stop(settings: Settings) -> bool:
    """Stop the cluster of TURNMILL_HOME, and keep its data. Return False if nothing ran."""
    folder = _folder(settings)
    if not folder.is_dir():
        return False
    with locked(folder / "lock"):
        known = _read(folder)
        return known is not None and processes.stop(known[1])


def status(settings: Settings) -> dict[Node, int | None]:
    """Return the process id of each node of TURNMILL_HOME's cluster, None if it is down; empty without a cluster."""
    known = _read(_folder(settings))
    return {node: pid_of(node) for node in known[1]} if known else {}


@contextmanager
def running(
    settings: Settings, brokers: int = 1, *, extra: Mapping[str, str] | None = None, progress: Progress = silent
) -> Iterator[Cluster]:
    """Run a cluster that ends with the block, and dies with this process. `extra`: see properties.server_properties."""
    if any(status(settings).values()):
        raise CallerError(f"a broker of {_folder(settings)} runs already: `turnmill down` stops it")
    with processes.watchdog() as group:
        cluster = start(settings, brokers, progress=progress, extra=extra, group=group)
        try:
            yield cluster
        finally:
            processes.stop(cluster.nodes)


def _plan(folder: Path, first: str, count: int) -> tuple[Node, ...]:
    host = first.rpartition(":")[0]
    addresses = next_addresses(first, count)
    listening = {host_port(address)[1] for address in addresses}
    controllers = [f"{host}:{port}" for port in free_ports(count, host.strip("[]"), beside=listening)]
    return tuple(
        Node(i + 1, address, controller, folder / f"node-{i + 1}")
        for i, (address, controller) in enumerate(zip(addresses, controllers, strict=True))
    )


def _folder(settings: Settings) -> Path:
    return settings.home.absolute() / "kafka"


def _read(folder: Path) -> tuple[str, tuple[Node, ...]] | None:
    try:
        saved = json.loads((folder / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    nodes = (Node(n["id"], n["address"], n["controller"], folder / f"node-{n['id']}") for n in saved["nodes"])
    return saved["cluster_id"], tuple(nodes)


def _write(folder: Path, cluster_id: str, nodes: tuple[Node, ...]) -> None:
    for node in nodes:
        node.folder.mkdir(parents=True, exist_ok=True)
    rows = [{"id": n.id, "address": n.address, "controller": n.controller} for n in nodes]
    draft = folder / "cluster.json.new"
    draft.write_text(json.dumps({"cluster_id": cluster_id, "nodes": rows}, indent=1))
    draft.replace(folder / "cluster.json")
