import asyncio

import pytest
from starlette.types import Receive

from pipeline.gateway.access.limits import AtOnce, BodyTooLarge, BodyTooSlow, Rate, chunks
from pipeline.gateway.problems import Problem


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(rate: Rate, name: str) -> str | None:
    """How long it is to wait; None where it may go on."""
    try:
        rate.take(name)
    except Problem as problem:
        return problem.headers["Retry-After"] if problem.kind == "rate-limited" else problem.kind
    return None


def test_each_caller_has_a_bucket_that_fills_again() -> None:
    clock = Clock()
    rate = Rate(2.0, clock)
    assert [refused(rate, "a") for _ in range(5)] == [None] * 4 + ["1"]
    assert refused(rate, "b") is None
    clock.now += 0.4
    assert refused(rate, "a") == "1", "a refusal costs nothing, and 0.8 of a request is none"
    clock.now += 0.2
    assert refused(rate, "a") is None
    clock.now += 1000
    assert [refused(rate, "a") for _ in range(5)] == [None] * 4 + ["1"]


def test_a_slow_rate_says_how_long() -> None:
    rate = Rate(0.1, Clock())
    assert refused(rate, "a") is None
    assert refused(rate, "a") == "10"


def test_no_rate_bounds_nothing() -> None:
    rate = Rate(0.0)
    assert [refused(rate, "a") for _ in range(1000)] == [None] * 1000


def request(*bodies: bytes, stuck: bool = False) -> Receive:
    waiting = [*bodies]

    async def receive() -> dict[str, object]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting) or stuck}
        await asyncio.sleep(60)
        raise AssertionError

    return receive


async def test_a_body_comes_in_its_chunks() -> None:
    assert [chunk async for chunk in chunks(request(b"ab", b"", b"c"), 1, 3)] == [b"ab", b"c"]


async def test_a_body_is_bounded_while_it_comes() -> None:
    body = chunks(request(b"ab", b"cd", b"ef"), 1, 3)
    assert await anext(body) == b"ab"
    with pytest.raises(BodyTooLarge):
        await anext(body)


async def test_a_body_that_stands_still_is_too_slow() -> None:
    body = chunks(request(b"ab", stuck=True), 0.01, 3)
    assert await anext(body) == b"ab"
    with pytest.raises(BodyTooSlow):
        await anext(body)


def test_requests_of_one_caller_at_once_are_bounded() -> None:
    at_once = AtOnce(2)
    ends = [at_once.begin("a"), at_once.begin("a")]
    with pytest.raises(Problem) as raised:
        at_once.begin("a")
    assert raised.value.kind == "rate-limited"
    assert raised.value.headers["Retry-After"]
    at_once.begin("b")()
    ends.pop()()
    at_once.begin("a")
