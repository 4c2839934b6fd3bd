"""Bodies of requests to models: each tenant's share of the room, and how slow a body may be."""

from typing import Any

import pytest

from pipeline.gateway.problems import Problem
from pipeline.gateway.proxy import bodies
from turnmill.shares import Room


def receiving(*chunks: bytes) -> Any:
    left = list(chunks)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


async def test_four_bodies_that_never_end_leave_room_for_another_tenant() -> None:
    room = Room(256)
    held = [bodies.Taken(room, "evil") for _ in range(4)]
    for one in held[:3]:
        one.more(64)
    with pytest.raises(Problem, match="for one tenant") as refused:
        held[3].more(1)
    assert refused.value.kind == "unavailable"
    with bodies.taken(room, "acme") as mine:
        assert await bodies.whole(receiving(b"x" * 20, b"y" * 20), 1.0, mine) == b"x" * 20 + b"y" * 20
    assert room.shares.held("acme") == 0


async def test_a_body_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 1_000, 4))
    monkeypatch.setattr(bodies, "monotonic", lambda: float(next(seconds)))
    with bodies.taken(Room(1_000_000), "evil") as mine, pytest.raises(Problem, match="bytes a second"):
        await bodies.whole(receiving(*[b"x"] * 20), 1.0, mine)
    with bodies.taken(Room(10_000_000), "acme") as mine:
        assert len(await bodies.whole(receiving(*[b"x" * 70_000] * 20), 1.0, mine)) == 1_400_000
