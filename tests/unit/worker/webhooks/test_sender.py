"""Look-ups of names: one that never ends holds up no other owner's."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from pipeline.policies.pools import LOOKUPS
from pipeline.policies.webhooks import EVENTS, Webhook
from pipeline.worker.webhooks import sender as webhook_sender
from pipeline.worker.webhooks.sender import Sender


def webhook(name: str, owner: str) -> Webhook:
    return Webhook(f"wh_{name}", f"https://{name}.example.com/", EVENTS, owner, (), 1)


async def test_names_that_never_resolve_hold_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by an attack: seven such names held every thread that looks names up, also for the broker and the store."""
    over, asked = threading.Event(), list[str]()

    def look(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        if host.startswith("evil"):
            over.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", look)
    monkeypatch.setattr(webhook_sender, "ATTEMPT_TIMEOUT", 0.05)
    sender = Sender(())
    try:
        outcomes = await asyncio.gather(*(sender.send(webhook(f"evil{n}", "evil"), "e", b"{}") for n in range(40)))
        assert {one.why for one in outcomes} == {"no answer within 0 s"}
        assert len(asked) < LOOKUPS.size, "a thread is held until its look-up ends, and some stay free"
        assert sender.slots.waiting("evil") == 0
        monkeypatch.setattr(webhook_sender, "ATTEMPT_TIMEOUT", 60.0)
        outcome = await sender.send(webhook("crm", "acme"), "e", b"{}")
        assert "has an address" in outcome.why
    finally:
        over.set()
        sender.lookups.shutdown()
