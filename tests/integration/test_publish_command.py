"""`turnmill publish` on a real broker: what it sends, in which order, and what it refuses to send."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from tests.support.commands import turnmill
from tests.support.places import ROOT
from tests.support.topic_records import read_all
from topics.agent_event import explain
from topics.catalog import EVENTS
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import decode
from turnmill.wire.framing import decode as decode_stream

EXAMPLES = ROOT / "examples"
WEATHER = EXAMPLES / "weather.sse"
FLEET = EXAMPLES / "fleet"
TROUBLE = FLEET / "trouble"


def events_of(file: Path, dialect: str) -> list[dict[str, Any]]:
    return [item.event for item in decode_stream(file.read_bytes(), DIALECTS[dialect].wire) if item.event is not None]


async def runs_of(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """run_id -> its records, in the topic's order."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for record in await read_all(settings, EVENTS):
        assert explain(record.value) == []  # type: ignore[attr-defined]
        envelope = decode(record.value)  # type: ignore[attr-defined]
        assert record.key.decode() == envelope["thread_id"]  # type: ignore[attr-defined]
        runs.setdefault(envelope["run_id"], []).append(envelope)
    return runs


async def test_a_folder_is_a_fleet(applied_settings: Settings) -> None:
    done = await turnmill(applied_settings, "publish", str(FLEET), "--batch", "7", "--json")
    assert done.returncode == 0, done.stderr
    runs = await runs_of(applied_settings)
    contexts = {file: json.loads(file.read_text()) for file in FLEET.rglob("*.run.json")}
    for file, context in contexts.items():
        records = runs.pop(context["run_id"])
        stream = file.with_name(file.name.removesuffix(".run.json"))
        assert [e for r in records for e in r["events"]] == events_of(stream, context["dialect"])
        assert [r["seq"] for r in records] == [sum(len(r["events"]) for r in records[:i]) for i in range(len(records))]
        assert max(len(r["events"]) for r in records) <= 7
        assert {r["thread_id"] for r in records} == {thread_uuid(context["thread_id"], context.get("tenant"))[0]}
        assert records[0]["ts"] == context["started_at"]
        assert all(earlier["ts"] <= later["ts"] for earlier, later in pairwise(records))
        first, last = records[0], records[-1]
        assert first["run"]["external_id"] == context["thread_id"]
        assert first["run"]["request"] == context["request"]
        assert first.get("tenant") == context.get("tenant")
        assert last["end"] == context.get("end", "disconnected")
        runs[context["run_id"]] = records
    summary = json.loads(done.stdout)
    assert summary["runs"] == len(runs) == len(contexts)
    assert summary["events"] == sum(len(r["events"]) for records in runs.values() for r in records)
    assert summary["records"] == sum(map(len, runs.values()))

    order = [decode(record.value)["run_id"] for record in await read_all(applied_settings, EVENTS)]  # type: ignore[attr-defined]
    assert sum(a != b for a, b in pairwise(order)) > len(runs)  # not one run after the other


async def test_envelopes_travel_as_they_are(applied_settings: Settings) -> None:
    file = EXAMPLES / "broken" / "unknown-dialect.jsonl"
    assert (await turnmill(applied_settings, "publish", str(file))).returncode == 0
    values = [record.value for record in await read_all(applied_settings, EVENTS)]  # type: ignore[attr-defined]
    assert values == file.read_bytes().splitlines()


async def test_repeats_are_other_runs_and_limits_bound_them(applied_settings: Settings) -> None:
    done = await turnmill(
        applied_settings, "publish", str(WEATHER), str(TROUBLE / "tool-failed.sse"), "--repeat", "3", "--limit", "5"
    )
    assert done.stdout.startswith("5 runs, ")
    runs = await runs_of(applied_settings)
    names = ("weather-example-1", "weather-example-1-2", "weather-example-1-3", "tool-failed", "tool-failed-2")
    assert sorted(runs) == sorted(names)
    assert len({records[0]["thread_id"] for records in runs.values()}) == 5
    whole = [[e for r in runs[name] for e in r["events"]] for name in names[:3]]
    assert whole[0] == whole[1] == whole[2]


async def test_standard_input_is_one_run_under_the_ids_that_are_given(applied_settings: Settings) -> None:
    options = ("--dialect", "vercel-ai", "--thread", "chat 9", "--agent", "me", "--run", "mine", "--speed", "0.5")
    done = await turnmill(applied_settings, "publish", "-", *options, stdin=WEATHER.read_bytes())
    assert done.stdout.startswith("1 run, 33 events in ")
    assert done.stdout.endswith(f"\nthread {thread_uuid('chat 9')[0]}\n")
    ((name, records),) = (await runs_of(applied_settings)).items()
    assert (name, records[0]["thread_id"], records[0]["agent_id"]) == ("mine", thread_uuid("chat 9")[0], "me")
    assert [e for r in records for e in r["events"]] == events_of(WEATHER, "vercel-ai")
    assert len(records) > 5  # at a pace, an event does not wait for all the others


async def test_nothing_is_published_when_one_file_is_wrong(applied_settings: Settings, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sse"
    broken.write_text('data: {"type":"start"}\n\ndata: {"type":"text-delta",\n\n')
    done = await turnmill(applied_settings, "publish", str(WEATHER), str(broken), "--dialect", "vercel-ai")
    assert done.returncode == 2
    assert f"{broken}: line 3: not JSON in UTF-8" in done.stderr

    pydantic_ai = FLEET / "analyst" / "revenue-q3-1.jsonl"
    done = await turnmill(applied_settings, "publish", str(pydantic_ai), "--dialect", "vercel-ai")
    assert done.returncode == 2
    assert f"{pydantic_ai}: line 1: an event of vercel-ai needs a string 'type', got None" in done.stderr
    assert "it looks like --dialect pydantic-ai" in done.stderr
    assert await runs_of(applied_settings) == {}


async def test_what_the_call_gets_wrong(applied_settings: Settings) -> None:
    for arguments, words in (
        ((str(FLEET), "--run", "r"), "--run names one run"),
        ((str(WEATHER), "--speed", "0"), "neither `max` nor a number over 0"),
        ((str(WEATHER), "--dialect", "smoke"), "'smoke' is not one of"),
        (("nowhere.sse",), "nowhere.sse"),
    ):
        done = await turnmill(applied_settings, "publish", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


async def test_a_broker_that_is_not_there(applied_settings: Settings) -> None:
    done = await turnmill(applied_settings, "publish", str(WEATHER), TURNMILL_BROKERS="127.0.0.1:1")
    assert done.returncode == 3
    assert done.stderr.startswith("turnmill: no Kafka broker answers at 127.0.0.1:1: start one (`turnmill up`)")
