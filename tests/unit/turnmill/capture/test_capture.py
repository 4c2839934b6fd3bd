"""Calls of a process, published as runs: what is assembled of them, and what happens where we fail."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.support.spools import away, spooled
from tests.support.waiting import until
from turnmill import Publisher
from turnmill.capture.capture import FAILED_RUN_BYTES, Call, Capture, CapturedCall
from turnmill.errors import BrokerError

SSE = {"content-type": "text/event-stream"}
SECRET = "sk-very-secret-1234"
HEADERS = {"authorization": f"Bearer {SECRET}", "x-session": "nothing"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker will come: what is published goes to the spool at once when the publisher is left."""
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.1)


def asked(*texts: str, **about: Any) -> Call:
    """Texts of the user and of the model, in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    body = json.dumps({"model": "m", "stream": True, "messages": messages}).encode()
    headers = {**HEADERS, **about.pop("headers", {})}
    return Call("openai", about.pop("dialect", "openai-chat"), "/v1/chat/completions", headers, body, **about)


def said(text: str, reason: str | None = "stop") -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"


def answer(call: CapturedCall, text: str) -> None:
    call.answered(200, SSE)
    call.data(said(text))
    call.data(b"data: [DONE]\n\n")
    call.finished()


def refuse(call: CapturedCall, status: int) -> None:
    call.answered(status, {"content-type": "application/json"})
    call.data(b'{"error": {"message": "no"}}')
    call.finished()


def published(home: Path, program: Callable[[Capture], Any], **about: Any) -> list[list[dict[str, Any]]]:
    """-> the records of each run, in the order in which they began."""
    settings = away(home)

    async def main() -> None:
        async with Publisher(settings) as publisher, Capture(publisher, agent_id="weather", **about) as capture:
            made = program(capture)
            if asyncio.iscoroutine(made):
                await made

    asyncio.run(main())
    runs: dict[str, list[dict[str, Any]]] = {}
    for record in spooled(settings):
        runs.setdefault(record["run_id"], []).append(record)
    assert SECRET not in json.dumps(list(runs.values()))
    return list(runs.values())


def turns(run: list[dict[str, Any]]) -> list[Any]:
    """-> what is assembled of a run; nothing of it is refused."""
    found, refused = assemble(DIALECTS[run[0]["dialect"]], run)
    assert refused == []
    return [record["turn"] for record in found if record["turn"]]


def test_a_conversation(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        answer(capture.begin(asked("hello")), "Hi!")
        answer(capture.begin(asked("hello", "Hi!", "Weather?")), "Rain.")
        answer(capture.begin(asked("hello", "Hi!", "Sports?")), "None.")

    first, second, third = published(tmp_path, program)
    user, agent = turns(first)
    assert user["parts"][0]["content"] == "hello"
    assert agent["completion_status"] == "complete"
    assert agent["messages"][0]["parts"][0]["content"] == "Hi!"
    assert first[0]["run"] == {"model_name": "m", "provider_name": "openai"}
    assert first[0]["agent_id"] == "weather"
    assert {run[0]["thread_id"] for run in (first, second, third)} == {first[0]["thread_id"]}
    assert second[0]["run"]["continues"] == third[0]["run"]["continues"] == first[0]["run_id"]
    assert third[0]["run"]["replaces"] == second[0]["run_id"]
    assert turns(second)[0]["parts"][0]["content"] == "Weather?", "what is sent again is not repeated"


def test_attempts_are_one_turn(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        refuse(capture.begin(asked("hello")), 429)
        broken = capture.begin(asked("hello"))
        broken.answered(200, SSE)
        broken.data(said("Hi", None))
        broken.failed(ConnectionResetError("by peer"))
        capture.begin(asked("hello")).failed(TimeoutError("no answer"))
        answer(capture.begin(asked("hello")), "Hi!")

    (run,) = published(tmp_path, program)
    events = [event for record in run for event in record["events"]]
    kinds = [event.get("object", "event") for event in events]
    assert kinds == [
        *("turnmill.request", "turnmill.error"),
        *("turnmill.request", "event", "turnmill.error"),
        *("turnmill.request", "turnmill.error"),
        *("turnmill.request", "event", "event"),
    ]
    _, agent = turns(run)
    assert agent["completion_status"] == "complete"
    texts = [part["content"] for message in agent["messages"] for part in message.get("parts", ())]
    assert texts == ["Hi!"]
    assert [record.get("end") for record in run][-1] == "complete"


@pytest.mark.parametrize(
    ("ends", "end"),
    [
        (lambda call: refuse(call, 400), "error"),
        (lambda call: refuse(call, 500), "error"),  # nobody has tried again when the program ended
        (lambda call: call.failed(TimeoutError()), "error"),
        (lambda call: call.cancelled(), "aborted"),
        (lambda call: None, "aborted"),  # the program ended meanwhile
    ],
)
def test_calls_that_fail(ends: Callable[[CapturedCall], None], end: str, tmp_path: Path) -> None:
    (run,) = published(tmp_path, lambda capture: ends(capture.begin(asked("hello"))))
    assert run[-1]["end"] == end
    assert turns(run)[-1]["completion_status"] == "interrupted"


def test_a_failed_call_that_nobody_tries_again_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmill.capture.exchange.RETRY_WINDOW", 0.05)

    async def program(capture: Capture) -> None:
        refuse(capture.begin(asked("hello")), 500)
        await capture.read()

        async def ended() -> bool:
            return not capture._held

        await until(ended)
        answer(capture.begin(asked("hello")), "Hi!")

    first, second = published(tmp_path, program)
    assert (first[-1]["end"], second[-1]["end"]) == ("error", "complete")
    assert first[0]["thread_id"] != second[0]["thread_id"]


def test_of_too_many_failed_calls_the_oldest_end(tmp_path: Path) -> None:
    async def program(capture: Capture) -> None:
        capture._held.size = 2 * FAILED_RUN_BYTES
        for text in ("a", "b", "c"):
            refuse(capture.begin(asked(text)), 500)
        await capture.read()
        assert len(capture._held) == 1
        for text in ("a", "c"):
            answer(capture.begin(asked(text)), "Hi!")

    runs = published(tmp_path, program)
    assert sorted(run[-1]["end"] for run in runs) == ["complete", "complete", "error", "error"]
    assert len({run[0]["thread_id"] for run in runs}) == 4


def test_headers_say_where_it_belongs(tmp_path: Path) -> None:
    names = {"turnmill-thread": "chat-1", "turnmill-run": "r", "turnmill-agent": "a", "turnmill-parent": "p"}
    calls = []

    async def program(capture: Capture) -> None:
        calls.append(capture.begin(asked("hello", headers=names), tenant="acme"))
        answer(calls[0], "Hi!")

    ((record,),) = published(tmp_path, program, tenant="none")
    assert (record["run_id"], record["agent_id"], record["tenant"]) == ("r", "a", "acme")
    assert record["run"]["external_id"] == "chat-1"
    assert record["run"]["parent_run_id"] == "p"
    assert (calls[0].thread_id, calls[0].run_id) == (record["thread_id"], "r")


def test_many_threads_at_once(tmp_path: Path) -> None:
    def talk(capture: Capture, name: str) -> None:
        history = [name]
        for number in range(10):
            call = capture.begin(asked(*history))
            answer(call, f"{name} {number}")
            history += [f"{name} {number}", "on"]

    async def program(capture: Capture) -> None:
        threads = [Thread(target=talk, args=(capture, f"agent {number}")) for number in range(8)]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(lambda: [thread.join() for thread in threads])

    runs = published(tmp_path, program)
    assert len(runs) == 80
    assert len({run[0]["thread_id"] for run in runs}) == 8
    assert all(run[-1]["end"] == "complete" for run in runs)


def test_what_has_no_room_is_left_out_and_said(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        call = capture.begin(asked("hello"))
        call.answered(200, SSE)
        call.data(said("Hi", None))
        for _ in range(50):
            call.data(b"x" * 1_000_000)
        assert capture._passing.size < 6_000_000
        call.finished()

    (run,) = published(tmp_path, program, queue_bytes=5_000_000)
    events = [event for record in run for event in record["events"]]
    assert events[-1]["object"] == "turnmill.left_out"
    assert events[-1]["bytes"] >= 45_000_000
    assert run[-1]["end"] == "error"


def test_requests_that_have_no_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def program(capture: Capture) -> None:
        for _ in range(3):
            answer(capture.begin(asked("x" * 2_000)), "Hi!")

    assert published(tmp_path, program, queue_bytes=1_000) == []
    assert len([message for message in caplog.messages if "does not keep up" in message]) == 1


def test_an_unknown_wire_is_not_published(tmp_path: Path) -> None:
    assert published(tmp_path, lambda capture: answer(capture.begin(asked("x", dialect="telepathy")), "y")) == []


def test_a_failure_of_ours_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Publisher):
        def run(self, **identity: Any) -> Any:
            raise BrokerError("no")

    async def main() -> None:
        async with Capture(Failing(away(Path("unused"))), agent_id="a") as capture:
            for _ in range(3):
                answer(capture.begin(asked("hello")), "Hi!")

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert len(caplog.records) == 1


def test_what_comes_before_the_publisher_waits(tmp_path: Path) -> None:
    settings = away(tmp_path)

    async def main() -> None:
        publisher = Publisher(settings)
        capture = Capture(publisher, agent_id="a")
        answer(capture.begin(asked("hello")), "Hi!")
        async with publisher, capture:
            pass
        answer(capture.begin(asked("too late")), "Hi!")

    asyncio.run(main())
    assert len({record["run_id"] for record in spooled(settings)}) == 1
