"""Stops of captured calls: whom they reach and when, what is published, how a wire words them."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.spools import away, spooled
from tests.support.waiting import until
from turnmill import ClientSettings, Publisher, RunStopped
from turnmill.capture import refusal
from turnmill.capture.capture import Call, Capture, CapturedCall
from turnmill.clock import now_ms
from turnmill.control.receiver import Control
from turnmill.control.record import AFTER_TURN, EVENT, NOW, Command
from turnmill.control.stopping import Stop, stopping
from turnmill.publish.run import PublishedRun

SSE = {"content-type": "text/event-stream"}


def command(mode: str = NOW, name: str = "c1") -> Command:
    now = now_ms()
    return Command(name, "t", "r", None, "stop", mode, "ann", now, now + 60_000)


def test_only_the_first_counts_but_now_comes_before_after_the_turn() -> None:
    stop, heard = Stop(), list[Command]()
    stop.then(heard.append)
    stop.tell(command(AFTER_TURN))
    assert stop.error is None
    stop.tell(command(name="c2"))
    stop.tell(command(name="c3"))
    assert [one.id for one in heard] == ["c1", "c2"]
    assert stop.error is not None
    assert stop.error.command_id == "c2"


def test_who_asks_late_is_told_and_who_is_over_is_not() -> None:
    stop, heard = Stop(), list[Command]()
    stop.tell(command())
    stop.then(heard.append)
    assert len(heard) == 1
    other = Stop()
    other.then(heard.append)
    other.over()
    other.tell(command())
    assert len(heard) == 1


def test_a_failure_of_the_program_reaches_nobody() -> None:
    stop = Stop()
    stop.then(lambda _: 1 / 0)
    stop.tell(command())
    assert stop.error is not None


class Told(Control):
    """Tells each run as soon as it begins, or nothing."""

    def __init__(self, *, at_once: bool = False) -> None:
        super().__init__(ClientSettings())
        self.runs: list[PublishedRun] = []
        self.at_once = at_once

    def begun(self, run: PublishedRun) -> None:
        self.runs.append(run)
        if self.at_once:
            run.stopped.tell(command())

    def over(self, run: PublishedRun) -> None:
        """Nothing."""


def said(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"


BODY = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
CALL = Call("openai", "openai-chat", "/v1/chat/completions", {}, BODY)


async def published(home: Path, told: Told, program: Any) -> list[list[dict[str, Any]]]:
    settings = away(home)
    async with (
        Publisher(settings, keep_after=0.1) as publisher,
        Capture(publisher, agent_id="weather", control=told) as capture,
    ):
        await program(capture)
    runs: dict[str, list[dict[str, Any]]] = {}
    for record in spooled(settings):
        runs.setdefault(record["run_id"], []).append(record)
    return list(runs.values())


def events(run: list[dict[str, Any]]) -> list[Any]:
    return [event for record in run for event in record["events"]]


async def is_told(call: CapturedCall) -> bool:
    return call.stop_error is not None


async def test_a_stopped_call_says_so_and_is_refused_once_more(tmp_path: Path) -> None:
    told = Told()

    async def program(capture: Capture) -> None:
        call = capture.begin(CALL)
        call.answered(200, SSE)
        call.data(said("It rains"))
        await capture.read()
        told.runs[0].stopped.tell(command())
        with pytest.raises(RunStopped):
            call.check()
        call.stopped()
        await capture.read()
        again = capture.begin(replace(CALL, body=BODY.replace(b"true", b"false")))  # Claude Code asks so
        other = capture.begin(replace(CALL, client="another"))
        assert again.stop_error is not None, "it is told before it is sent"
        again.stopped()
        other.answered(200, SSE)
        other.data(said("It rains", "stop"))
        other.finished()
        once_more = capture.begin(CALL)
        await capture.read()
        assert (other.stop_error, once_more.stop_error) == (None, None)

    stopped, other, once_more = await published(tmp_path, told, program)
    assert events(stopped)[-1] == {"object": EVENT, "id": "c1", "state": "acknowledged", "by": "ann"}
    assert [run[-1]["end"] for run in (stopped, other, once_more)] == ["aborted", "complete", "aborted"]
    assert EVENT not in json.dumps([other, once_more])


async def test_a_call_whose_model_has_said_all_is_complete(tmp_path: Path) -> None:
    async def program(capture: Capture) -> None:
        call = capture.begin(CALL)
        call.answered(200, SSE)
        call.data(said("It rains", "stop"))
        await until(lambda: is_told(call))
        call.stopped()

    [run] = await published(tmp_path, Told(at_once=True), program)
    assert run[-1]["end"] == "complete"
    assert EVENT not in json.dumps(run)


async def test_the_call_of_a_model_is_a_turn(tmp_path: Path) -> None:
    told = Told()

    async def program(capture: Capture) -> None:
        call = capture.begin(CALL)
        await capture.read()
        told.runs[0].stopped.tell(command(AFTER_TURN))
        call.check()
        assert call.stop is not None
        assert call.stop.command is None
        call.cancelled()

    await published(tmp_path, told, program)


async def test_a_loop_hears_it_from_another_thread() -> None:
    stop = Stop()
    heard = stopping(stop)
    asyncio.get_running_loop().call_later(0.01, lambda: asyncio.ensure_future(asyncio.to_thread(stop.tell, command())))
    with pytest.raises(RunStopped):
        await heard.during(asyncio.Event().wait)


@pytest.mark.parametrize(
    "dialect",
    [
        *("openai-chat", "openai-responses", "anthropic", "gemini"),
        *("bedrock", "cohere", "gemini-interactions", "mistral", "ollama"),
    ],
)
def test_each_wire_has_words_for_it(dialect: str) -> None:
    assert json.loads(refusal.whole(dialect, "stopped by ann"))["error"]["message"] == "stopped by ann"
    stream = {"content-type": "text/event-stream; charset=utf-8"}
    said = refusal.at_end(dialect, "stopped by ann", stream, b"x\n\n")
    assert said is not None
    *_, data = said.decode().strip().splitlines()
    assert json.loads(data.removeprefix("data: "))["error"]["message"] == "stopped by ann"
    assert refusal.at_end(dialect, "stopped by ann", stream, b"") == said
    for headers, newest in (
        ({"content-type": "application/json"}, b"\n\n"),
        ({**stream, "content-encoding": "gzip"}, b"\n\n"),
        ({**stream, "content-length": "100"}, b"\n\n"),
        (stream, b"da"),
    ):
        assert refusal.at_end(dialect, "stopped by ann", headers, newest) is None
