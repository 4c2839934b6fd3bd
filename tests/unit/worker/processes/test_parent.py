"""A parent and its children: started, asked, merged, stopped, killed. The children are real processes without roles."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from pipeline.worker.processes import parent
from pipeline.worker.processes.child import LIVE
from pipeline.worker.processes.parent import ChildProcess
from pipeline.worker.processes.parts import Part
from tests.support.waiting import until

STOP_WITHIN = 20.0


async def started(part: Part) -> ChildProcess:
    """A child whose name says what it does, and its number."""
    program = [sys.executable, "-m", "tests.support.child_program", *part.name.split("-")]
    process = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE)
    pids[part.name] = process.pid
    return ChildProcess(part.name, process)


pids: dict[str, int] = {}


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildProcess, "of", started)
    pids.clear()


@dataclass
class Running:
    status: asyncio.Task[int]
    http: aiohttp.ClientSession

    async def reasons(self, page: str) -> tuple[int, list[str]]:
        async with self.http.get(page) as answer:
            return answer.status, (await answer.json())["reasons"]

    async def ready(self) -> bool:
        try:
            return (await self.reasons("/readyz"))[1] != ["starting"]
        except aiohttp.ClientError:
            return False


@asynccontextmanager
async def running(names: Sequence[str], stop_within: float = STOP_WITHIN) -> AsyncIterator[Running]:
    settings = Settings(port=free_ports(1)[0])
    task = asyncio.ensure_future(
        parent.run(settings.host, settings.port, [Part(name, ()) for name in names], stop_within)
    )
    async with aiohttp.ClientSession(f"http://127.0.0.1:{settings.port}") as http:
        try:
            yield Running(task, http)
        finally:
            if not task.done():
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait([task])


async def gone(name: str) -> bool:
    try:
        os.kill(pids[name], 0)
    except ProcessLookupError:
        return True
    return False


async def test_one_port_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(["well-1", "well-2"]) as worker:
        await until(worker.ready)
        assert await worker.reasons("/readyz") == (200, [])
        assert await worker.reasons("/livez") == (200, [])
        async with worker.http.get("/metrics") as answer:
            text = await answer.text()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        commits = {sample.labels["process"]: sample.value for sample in families["turnmill_commits"].samples}
        assert commits == {"well-1": 1, "well-2": 2}
        lags = [
            (sample.labels["process"], sample.labels["partition"])
            for sample in families["turnmill_lag_records"].samples
        ]
        assert lags == [("well-1", "1"), ("well-2", "2")]
        assert {one.labels["process"] for one in families["process_resident_memory_bytes"].samples} == {
            *("well-1", "well-2", "parent")
        }
        openmetrics = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with worker.http.get("/metrics", headers=openmetrics) as answer:
            assert (await answer.text()).endswith("# EOF\n")
        os.kill(os.getpid(), signal.SIGTERM)
        assert await worker.status == 0
        assert await gone("well-1")
        assert await gone("well-2")
    assert "2 processes; http://127.0.0.1:" in capsys.readouterr().err


async def test_it_is_ready_when_all_are() -> None:
    async with running(["well-1", "waits-2"]) as worker:
        await until(worker.ready)
        assert await worker.reasons("/readyz") == (503, ["process waits-2: the store does not answer"])
        assert await worker.reasons("/livez") == (200, [])


async def test_an_event_loop_that_stands_still_is_told_of_and_killed_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(["well-1", "hangs-2"], stop_within=0.5) as worker:
        await until(worker.ready)
        status, reasons = await worker.reasons("/livez")
        assert (status, reasons) == (503, ["process hangs-2: its event loop has not answered for 3 s"])
        async with worker.http.get("/metrics") as answer:
            assert 'turnmill_commits_total{process="hangs-2"} 2.0' in await answer.text()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await worker.status == 128 + signal.SIGKILL


async def test_a_child_that_fails_ends_the_others_and_its_status_is_the_parents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with running(["well-1", "fails-2", "well-3"]) as worker:
        assert await worker.status == 4
        assert await gone("well-1")
        assert await gone("well-3")
    assert not capsys.readouterr().err, "a child that cannot start has said why itself"


async def test_a_child_that_is_killed_ends_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(["unclean-1", "well-2"]) as worker:
        await until(worker.ready)
        os.kill(pids["well-2"], signal.SIGKILL)
        assert await worker.status == 128 + signal.SIGKILL  # which is worse than 75
        assert await gone("unclean-1")
    assert "process well-2 ended with status 137" in capsys.readouterr().err


async def test_the_worst_status_of_a_stop_counts() -> None:
    async with running(["well-1", "unclean-2"]) as worker:
        await until(worker.ready)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await worker.status == 75


async def test_a_child_that_takes_no_signal_is_killed() -> None:
    async with running(["deaf-1", "well-2"], stop_within=0.5) as worker:
        await until(worker.ready)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await worker.status == 128 + signal.SIGKILL
        assert await gone("deaf-1")


async def test_a_child_ends_with_its_parents_end_of_the_pipe() -> None:
    child = await started(Part("well-1", ()))
    await child.start()
    assert await child.asked(LIVE) == []
    process = child._process
    assert process.stdin is not None
    process.stdin.close()
    assert await child.ended == 0
    with pytest.raises(ConnectionError):
        await child.asked(LIVE)
