"""That Ctrl-C ends the demo, where it puts what it makes, and how its conversations read."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from pipeline.cli.dev import demo
from pipeline.cli.dev.broker import Child
from pipeline.cli.dev.command import conversations
from pipeline.cli.dev.demo import BROKEN, EXAMPLES, recorded, settings_of_demo
from pipeline.cli.files import publish
from pipeline.cli.files.recordings import Stream
from pipeline.settings import Settings, load
from tests.support.assembled import assembled
from turnmill.publish.counts import Counts


async def test_it_ends_where_a_library_keeps_the_first_cancellation_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = 0
    publishing = asyncio.Event()

    async def deaf(*_: Any) -> None:
        nonlocal kept
        publishing.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            kept += 1
        await asyncio.Event().wait()

    monkeypatch.setattr(demo, "publish_all", deaf)
    settings = Settings(store=f"sqlite:///{tmp_path / 'threads.db'}")
    worker = Child("worker", process=None, port=0, log=tmp_path / "worker.log")  # type: ignore[arg-type]  # nobody asks it
    running = asyncio.create_task(demo._run(settings, [], worker, Progress(disable=True)))
    await publishing.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert kept == 1


def test_what_it_makes_is_in_the_cache_or_in_the_home_that_was_named(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    found = settings_of_demo(load({"TURNMILL_CACHE": cache}))
    assert (found.home, found.cache_folder) == (tmp_path / "cache" / "demo", tmp_path / "cache")
    home = str(tmp_path / "home")
    assert settings_of_demo(load({"TURNMILL_CACHE": cache, "TURNMILL_HOME": home})).home == tmp_path / "home" / "demo"


def asked(turn: dict[str, Any]) -> str:
    return " ".join(part["content"] for part in turn["parts"] if part["part_kind"] == "user-prompt")


def scripted() -> dict[str, list[str]]:
    """What each recorded user asks, in the order of the script: thread -> prompts."""
    script = json.loads((EXAMPLES / "conversations.json").read_text(encoding="utf-8"))
    return {told["thread_id"]: [turn["prompt"] for turn in told["turns"]] for told in script["conversations"]}


@dataclass
class PlayedRun:
    facts: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def send(self, event: dict[str, Any], at: int | None) -> None:
        self.events.append(event)

    async def end(self, reason: str, at: int | None) -> None: ...


@dataclass
class Played:
    """A publisher that keeps what it is given: thread -> its runs, in their order."""

    threads: dict[str, list[PlayedRun]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def flush(self) -> None: ...

    def run(self, *, thread_id: str, **facts: Any) -> "PlayedRun":
        self.threads.setdefault(thread_id, []).append(run := PlayedRun(facts))
        return run


async def test_a_person_reads_the_demos_threads_in_their_order() -> None:
    played: Any = Played()
    await publish.publish_all(played, conversations("today"), 1000.0, 8, 8, lambda _: None)
    script, spoken = scripted(), dict[str, list[str]]()
    for name, runs in played.threads.items():
        turns = [
            turn
            for run in runs
            for turn in assembled(run.facts["dialect"], run.events, run=run.facts["info"], end="disconnected").turns
        ]
        assert [turn["turn_type"] for turn in turns] == ["user", "agent"] * len(runs), name
        assert all(asked(turn) for turn in turns[::2]), name
        assert all(turn["messages"] or turn["interruption"] for turn in turns[1::2]), name
        spoken[name.removesuffix("-today")] = [asked(turn) for turn in turns[::2]]
    assert len(spoken) == len(played.threads) > len(script) > 15
    assert {name: spoken[name] for name in script} == script


def test_what_is_broken_on_purpose_is_played_by_the_demo_alone_and_once() -> None:
    broken = {recording.run_id for recording in recorded(BROKEN) if isinstance(recording, Stream)}
    played = [recording.run_id for recording in demo._recordings(300) if isinstance(recording, Stream)]
    assert [played.count(run) for run in broken] == [1]
    assert not broken & {recording.run_id.removesuffix("-x") for recording in conversations("x")}  # type: ignore[union-attr]
