"""The outermost layer of the app: requests that come at once share the event loop with everything else."""

import asyncio
import time

import pytest
from starlette.types import Message, Receive, Scope, Send

from pipeline.gateway.serving.app import LOOP_SHARE, Guard
from pipeline.observability.metrics import Metrics

REQUESTS = 100
TAKES = LOOP_SHARE / 4  # seconds of the loop that each request takes, at least


@pytest.mark.parametrize("with_body", [False, True])
async def test_requests_that_come_at_once_let_others_have_their_rounds_of_the_loop(*, with_body: bool) -> None:
    began: list[str] = []
    waiting: list[asyncio.Future[None]] = []  # for their bodies, which all come in one round

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if with_body:
            await receive()
        began.append(scope["path"])
        time.sleep(TAKES)  # noqa: ASYNC251 # the request is to hold the loop

    async def receive() -> Message:
        loop = asyncio.get_running_loop()
        waiting.append(loop.create_future())
        if len(waiting) == REQUESTS:
            for body in waiting:
                loop.call_soon(body.set_result, None)
        await waiting[-1]
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        """Drop the answer: the test looks only at when requests begin."""

    async def other() -> None:
        while len([name for name in began if name]) < REQUESTS:
            began.append("")
            await asyncio.sleep(0)

    guard = Guard(app, Metrics(), 1_000, lambda headers: None)
    paths = [f"/{number}" for number in range(REQUESTS)]
    requests = [
        guard(
            {"type": "http", "method": "GET", "path": path, "raw_path": b"", "query_string": b"", "headers": []},
            receive,
            send,
        )
        for path in paths
    ]
    await asyncio.gather(other(), *requests)
    streaks = " ".join(name or "\n" for name in began).split("\n")
    assert max(len(streak.split()) for streak in streaks) <= LOOP_SHARE / TAKES + 1
    assert [name for name in began if name] == paths
