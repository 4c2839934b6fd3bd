"""Make server.properties of the development broker's nodes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Keys with lists, to which the caller's values are appended. All other keys of the caller replace ours.
APPENDED = ("listeners", "advertised.listeners", "listener.security.protocol.map")


@dataclass(frozen=True, slots=True)
class Node:
    """One broker, which is also a controller. `address` and `controller`: host:port; `folder`: for its files only."""

    id: int
    address: str
    controller: str
    folder: Path

    @property
    def properties(self) -> Path:
        """Its server.properties. The path is on the command line, by which a process is recognized as this node."""
        return self.folder / "server.properties"

    @property
    def log(self) -> Path:
        """The node's log, from its latest start on."""
        return self.folder / "server.log"

    @property
    def pid_file(self) -> Path:
        """The file with the process id of its latest start; the process may have ended."""
        return self.folder / "pid"


def server_properties(node: Node, nodes: Sequence[Node], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return Kafka's configuration of `node` in the cluster of `nodes`; `extra` as in APPENDED."""
    copies = str(min(3, len(nodes)))
    in_sync = str(min(2, len(nodes)))
    ours = {
        "node.id": str(node.id),
        "process.roles": "broker,controller",
        "controller.quorum.voters": ",".join(f"{n.id}@{n.controller}" for n in nodes),
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{node.controller}",
        "advertised.listeners": f"PLAINTEXT://{node.address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "data",  # relative to the node's folder, the working directory: a full path might have a comma
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        # A development machine: a group's first join waits for nobody, a dead broker is noticed soon (one that
        # comes back must wait until it is), and buffers fit into a small heap.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": "16777216",
        "log.index.size.max.bytes": "1048576",
        "log.segment.delete.delay.ms": "1000",
    }
    for key, value in (extra or {}).items():
        ours[key] = f"{ours[key]},{value}" if key in APPENDED else value
    return ours


def render(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file, in ASCII, sorted by key."""
    return "".join(f"{_escaped(key, ' =:#!')}={_escaped(value, '')}\n" for key, value in sorted(properties.items()))


def _escaped(text: str, special: str) -> str:
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"} | {c: f"\\{c}" for c in special}
    body = text.lstrip(" ")
    escaped = "".join(named.get(c, c) if c.isascii() else _utf16(c) for c in body)
    return "\\ " * (len(text) - len(body)) + escaped


def _utf16(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
