"""Publishers say in whose span their runs are: OpenTelemetry's current one, the request's, or one that is given."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from pipeline.observability.logs import JsonFormatter
from tests.support.spools import away, spooled
from turnmill.integrations.asgi import PublishStreams
from turnmill.publish.publisher import Publisher
from turnmill.publish.run import PublishedRun
from turnmill.publish.synchronous import SyncPublisher
from turnmill.wire.traceparent import current

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAID = f"00-{TRACE}-00f067aa0ba902b7-01"
GIVEN = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00"
RUN = {"thread_id": "chat", "agent_id": "weather", "dialect": "vercel-ai"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.0)


@pytest.fixture
def span() -> Iterator[None]:
    """The program is in a span."""
    found = SpanContext(int(TRACE, 16), int("00f067aa0ba902b7", 16), is_remote=False, trace_flags=TraceFlags(1))
    with trace.use_span(NonRecordingSpan(found)):
        yield


def said(home: Path) -> list[Any]:
    """What the first records of all runs say."""
    return [record["run"].get("traceparent") for record in spooled(away(home)) if "run" in record]


async def publish(home: Path, **more: Any) -> PublishedRun:
    async with Publisher(away(home)) as publisher, publisher.run(**RUN, **more) as run:
        await run.send({"type": "start"})
    return run


async def test_the_current_span_or_the_one_that_is_given(tmp_path: Path, span: None) -> None:
    assert current() == SAID
    await publish(tmp_path / "1")
    await publish(tmp_path / "2", traceparent=GIVEN)
    await publish(tmp_path / "3", info={"traceparent": GIVEN})
    assert [said(tmp_path / name) for name in "123"] == [[SAID], [GIVEN], [GIVEN]]


@pytest.mark.parametrize("wrong", ["no", "\ud800", GIVEN.upper()])
async def test_one_of_another_form_is_left_out(tmp_path: Path, wrong: str) -> None:
    assert current() is None
    await publish(tmp_path, traceparent=wrong)
    assert said(tmp_path) == [None]


def test_a_program_without_opentelemetry_is_in_no_span_and_imports_none_of_it() -> None:
    program = (
        "import sys, pipeline.worker.host.worker, turnmill.publish.publisher;"
        "from turnmill.wire.traceparent import current;"
        "assert current() is None; assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.usefixtures("span")
def test_a_program_without_an_event_loop(tmp_path: Path) -> None:
    with SyncPublisher(away(tmp_path)) as publisher, publisher.run(**RUN) as run:
        run.send({"type": "start"})
    assert said(tmp_path) == [SAID]


async def test_a_web_application_that_does_not_trace_itself_goes_by_the_request(tmp_path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b'data: {"type":"start"}\n\n'})

    async def nothing(*_: Any) -> Any:
        return {"type": "http.disconnect"}

    async with Publisher(away(tmp_path)) as publisher:
        scope = {"type": "http", "path": "/", "headers": [(b"traceparent", GIVEN.encode()), (b"x-thread-id", b"chat")]}
        await PublishStreams(app, publisher=publisher)(scope, nothing, nothing)
    assert said(tmp_path) == [GIVEN]


async def test_log_lines_about_a_run_name_it_and_its_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Publisher(away(tmp_path)) as publisher, publisher.run(**RUN, run_id="r1", traceparent=SAID) as run:
        await run.offer({"type": "start", "large": "x" * 1_000_000})
    (record,) = [one for one in caplog.records if "was not published" in one.getMessage()]
    line = json.loads(JsonFormatter().format(record))
    assert (line["thread_id"], line["run_id"], line["trace_id"]) == (run.thread_id, "r1", TRACE)
