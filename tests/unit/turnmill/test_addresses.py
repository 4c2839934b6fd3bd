"""Why nothing answers at an address, in words."""

import socket

import pytest

from turnmill.kafka.probe import why_silent


def test_the_reasons_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert why_silent(address) == "what listens there does not speak Kafka, or not in time"
    assert why_silent(address) == "nothing listens there"
    assert why_silent("no-such-broker.invalid:9092").startswith("no address is known for no-such-broker.invalid")

    def silent(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    assert why_silent(address).startswith("no answer within 1 s")
