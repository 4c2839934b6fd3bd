"""Addresses that the development broker may listen on."""

import errno
import socket
from collections.abc import Collection
from random import SystemRandom

from turnmill.addresses import host_port
from turnmill.errors import CallerError
from turnmill.kafka.probe import ask

# Below the range that systems use for outgoing connections, where a reconnecting client could get the port of the
# broker that is just being restarted.
RANGE = range(20_000, 30_000)


def bindable(host: str, port: int) -> bool:
    """Return True if a server could listen there now. Raises OSError if it never could (no address of this machine)."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does
        try:
            server.bind(address)
            server.listen(1)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def free_ports(count: int, host: str = "127.0.0.1", *, beside: Collection[int] = ()) -> list[int]:
    """Return `count` different ports that are free now, without those in `beside`, which are about to be used.

    They are chosen at random, independent of a seed that the program may have set, so that parallel callers rarely
    choose the same.
    """
    ports: list[int] = []
    for port in SystemRandom().sample(RANGE, len(RANGE)):
        if port not in beside and bindable(host, port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise CallerError(f"no {count} free ports from {RANGE.start} to {RANGE.stop}: stop something that listens there")


def next_addresses(first: str, count: int) -> list[str]:
    """Return `first` and the next free ports of its host, host:port each."""
    host, first_port = first.rpartition(":")[0], host_port(first)[1]
    addresses = [first]
    for port in range(first_port + 1, min(first_port + 1000, 65536)):
        if len(addresses) == count:
            break
        if bindable(host.strip("[]"), port):
            addresses.append(f"{host}:{port}")
    if len(addresses) < count:
        raise CallerError(f"no free port behind {first} for {count} brokers: choose another TURNMILL_BROKERS")
    return addresses


def check_listenable(address: str) -> None:
    """Raise CallerError if a new broker can't listen on host:port; the message says what listens there."""
    host, port = host_port(address)
    try:
        free = bindable(host, port)
    except OSError as error:
        raise CallerError(
            f"can't listen on {address} ({error.strerror or error}): the development broker runs on this machine; "
            "set TURNMILL_BROKERS to an address of it, such as 127.0.0.1:9092"
        ) from error
    if not free:
        other = "another Kafka broker, which can be used as it is" if ask(address) else "another program"
        raise CallerError(f"{address} is taken by {other}: stop it, or set TURNMILL_BROKERS to a free port")
