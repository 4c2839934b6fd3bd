"""The events of an upload: taken, refused, and how the run ended."""

import asyncio
import json
from typing import Any

import pytest

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import UnknownWire
from pipeline.gateway.intake.uploads import Upload
from turnmill.errors import InvalidRecord
from turnmill.publish.micro_batch import MicroBatch

IDENTITY = {"thread_id": "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01", "run_id": "r", "agent_id": "a", "dialect": "vercel-ai"}


class Run:
    """Stands where a PublishedRun would, with the same packing, and no broker behind it."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info = info
        self.events: list[dict[str, Any]] = []
        self.ended: str | None = None
        self._batch = MicroBatch(IDENTITY)

    async def send(self, event: dict[str, Any], *, at: int | None = None) -> None:
        self._batch.add(event, 0)
        self.events.append(event)

    async def end(self, end: str) -> None:
        self.ended = end

    def leave(self) -> None:
        self.ended = "open"


def upload(dialect: str | None = "vercel-ai", **more: Any) -> Upload:
    return Upload(None if dialect is None else DIALECTS[dialect], Run, asyncio.to_thread, **more)  # type: ignore[arg-type]


async def sent(body: bytes, dialect: str | None = "vercel-ai", chunk: int = 7, **more: Any) -> Upload:
    one = upload(dialect, **more)
    for at in range(0, len(body), chunk):
        await one.feed(body[at : at + chunk])
    await one.close()
    return one


@pytest.mark.parametrize("chunk", [1, 3, 1000])
async def test_events_are_taken_as_they_come(chunk: int) -> None:
    one = await sent(b'data: {"type":"start"}\n\ndata: {"type":"finish"}\n\ndata: [DONE]\n\n', chunk=chunk)
    run: Any = await one.finish(one.end, end_given=False)
    assert (run.events, run.ended) == ([{"type": "start"}, {"type": "finish"}], "complete")


@pytest.mark.parametrize(
    ("dialect", "types", "end"),
    [
        ("vercel-ai", ["start", "finish"], "complete"),
        ("vercel-ai", ["start", "abort"], "aborted"),
        ("vercel-ai", ["start", "finish", "start"], "disconnected"),
        ("vercel-ai", ["start"], "disconnected"),
        ("pi-agent", ["agent_start", "agent_end"], "complete"),
        ("pi-agent", ["agent_end", "agent_start"], "disconnected"),
        ("thread-protocol", ["user-turn"], "complete"),
    ],
)
async def test_the_stream_says_how_its_run_ended(dialect: str, types: list[str], end: str) -> None:
    body = "\n".join(f'{{"type": "{kind}"}}' for kind in types).encode()
    assert (await sent(body, dialect)).end == end


async def test_an_attempt_that_will_be_repeated_is_no_end() -> None:
    one = await sent(b'{"type": "agent_end", "willRetry": true}', "pi-agent")
    assert one.end == "disconnected"


async def test_what_can_not_be_used_is_told_and_the_rest_goes_on() -> None:
    large = b'{"type":"x","d":"' + b"x" * 950_000 + b'"}'
    lines = [b'{"type":"start"}', b"rubbish", b"[1]", b'{"kind":"start"}', b'{"type":5}', large, b'{"type":"finish"}']
    one = await sent(b"\n".join(lines), chunk=10_000)
    run: Any = await one.finish(one.end, end_given=False)
    assert [event["type"] for event in run.events] == ["start", "finish"]
    assert (one.accepted, one.refused, one.too_large) == (2, 5, 1)
    assert [line for line, _ in one.refusals] == [2, 3, 4, 5, 6]
    assert one.reasons == {"undecodable": 1, "invalid_event": 3, "too_large": 1}
    assert all(isinstance(error, InvalidRecord) for _, error in one.refusals)


async def test_refusals_are_counted_further_than_they_are_told() -> None:
    one = await sent(b"rubbish\n" * 500, chunk=1000)
    assert (one.refused, len(one.refusals)) == (500, 20)
    assert await one.finish("disconnected", end_given=False) is None, "nothing was published"


async def test_the_body_may_begin_with_what_is_known_of_the_run() -> None:
    one = await sent(b'{"agent_id":"a","request":{"x":1}}\n{"type":"finish"}', info_first=True)
    run: Any = await one.finish("complete", end_given=False)
    assert run.info == {"agent_id": "a", "request": {"x": 1}}
    assert run.events == [{"type": "finish"}]
    named = await sent(
        b'event: info\ndata: {"agent_id":"b"}\n\nevent: done\ndata: {}\n\n', "agents-sdk", info_first=True
    )
    assert ((await named.finish("complete", end_given=False)).info) == {"agent_id": "b"}  # type: ignore[union-attr]


async def test_an_end_can_be_told_without_an_event() -> None:
    run: Any = await upload().finish("aborted", end_given=True)
    assert (run.events, run.ended) == ([], "aborted")
    assert await upload().finish("disconnected", end_given=False) is None
    going_on: Any = await (await sent(b'{"type":"start"}')).finish("open", end_given=True)
    assert going_on.ended == "open"


@pytest.mark.parametrize("chunk", [1, 30, 1000])
async def test_the_first_events_tell_the_dialect(chunk: int) -> None:
    body = b'data: {"type":"start"}\n\ndata: {"type":"start-step"}\n\ndata: {"type":"finish"}\n\n'
    one = await sent(body, None, chunk)
    run: Any = await one.finish(one.end, end_given=False)
    assert one.dialect is DIALECTS["vercel-ai"]
    assert ([event["type"] for event in run.events], run.ended) == (["start", "start-step", "finish"], "complete")


async def test_events_are_held_no_longer_than_they_have_to() -> None:
    one = upload(None)
    await one.feed(b'data: {"type":"start"}\n\n')
    assert (one.dialect, one.accepted) == (None, 0)
    await one.feed(b'data: {"type":"start-step"}\n\ndata: {"type":"text-start","id":"t"}\n\n')
    assert (one.dialect, one.accepted) == (DIALECTS["vercel-ai"], 3)


async def test_the_bodys_own_facts_tell_no_dialect() -> None:
    facts, events = {"type": "RUN_STARTED", "agent_name": "A"}, [{"event_kind": "part_start"}] * 2
    one = await sent("\n".join(map(json.dumps, [facts, *events])).encode(), None, info_first=True)
    run: Any = await one.finish(one.end, end_given=False)
    assert (one.dialect, run.info, run.events) == (DIALECTS["pydantic-ai"], facts, events)


@pytest.mark.parametrize(
    ("body", "could_be"),
    [
        (b'{"type":"start"}\n', ("pi-proxy", "vercel-ai")),
        (b'{"type":"smoke"}\n', ()),
        (b'{"type":"start"}\n' * 300, ("pi-proxy", "vercel-ai")),
        (b"x" * 5_000_000, ()),
    ],
)
async def test_a_body_that_does_not_tell_its_dialect(body: bytes, could_be: tuple[str, ...]) -> None:
    with pytest.raises(UnknownWire) as caught:
        await sent(body, None, chunk=100_000)
    assert caught.value.could_be == could_be


async def test_a_body_without_events_has_no_dialect() -> None:
    one = await sent(b": nothing\n\n", None)
    assert (one.dialect, await one.finish("complete", end_given=True)) == (None, None)
