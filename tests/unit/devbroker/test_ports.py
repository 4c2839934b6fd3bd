import socket
import threading
from collections.abc import Iterator

import pytest

from pipeline.devbroker.ports import bindable, check_listenable, free_ports, next_addresses
from turnmill.addresses import host_port
from turnmill.errors import CallerError
from turnmill.kafka.probe import ask


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which something listens that is no Kafka: it answers every connection with a line of HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("address", "parts"), [("kafka.example.com:9092", ("kafka.example.com", 9092)), ("[::1]:9", ("::1", 9))]
)
def test_host_port(address: str, parts: tuple[str, int]):
    assert host_port(address) == parts


def test_free_ports_are_different_and_free():
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(bindable("127.0.0.1", port) for port in ports)


def test_a_port_that_something_is_about_to_take_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.devbroker.ports.RANGE", range(20_000, 20_003))
    monkeypatch.setattr("pipeline.devbroker.ports.bindable", lambda host, port: True)
    assert set(free_ports(2, beside={20_001})) == {20_000, 20_002}
    with pytest.raises(CallerError, match="no 3 free ports"):
        free_ports(3, beside={20_001})


def test_a_taken_port_is_passed_over(taken: int):
    assert not bindable("127.0.0.1", taken)
    first = f"127.0.0.1:{taken - 1}"
    found = next_addresses(first, 3)
    assert found[0] == first
    assert len(set(found)) == 3
    assert f"127.0.0.1:{taken}" not in found


def test_what_is_no_kafka_does_not_answer(taken: int):
    assert ask(f"127.0.0.1:{taken}") is None
    assert ask(f"127.0.0.1:{free_ports(1)[0]}") is None


def test_a_taken_port_is_refused(taken: int):
    with pytest.raises(CallerError, match=f"127.0.0.1:{taken} is taken by another program"):
        check_listenable(f"127.0.0.1:{taken}")


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(CallerError, match=r"can't listen on 192\.0\.2\.1:9092"):
        check_listenable("192.0.2.1:9092")  # reserved for documentation by RFC 5737
