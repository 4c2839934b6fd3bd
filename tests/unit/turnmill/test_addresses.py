"""Why nothing answers at an address, in words."""

import socket

import pytest

from turnmill.addresses import unreachable


def test_the_reasons_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert unreachable(address) is None
    assert unreachable(address) == "nothing listens there"
    assert unreachable("no-such-broker.invalid:9092").startswith("no address is known for no-such-broker.invalid")

    def silent(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    assert unreachable(address).startswith("no answer within 1 s")
