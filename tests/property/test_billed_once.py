"""Replay, fork, resume and snapshot of a run never change the sum of what was billed: over all wires."""

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import close
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.dialects import DIALECTS
from pipeline.dialects.langgraph.shapes import stream_event
from tests.property import (
    adk_streams,
    agents_sdk_streams,
    chat_streams,
    openai_agents_streams,
    pi_streams,
    vercel_streams,
)
from tests.support.resumed import RESUMED, ids_of, resumed
from tests.support.told_runs import Fields, Told, billed, told_runs

OTHER_THREAD: Final = "0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a22"
Is = Callable[[Fields], bool]


def of(key: str, *kinds: str) -> Is:
    """Whether an event is of one of these types."""
    return lambda event: event.get(key) in kinds


def of_langgraph(event: Fields) -> bool:
    """A state, a node's output, and a whole message; a chunk is a piece of one, which LangChain adds to the others."""
    try:
        mode, _, data, _ = stream_event(event)
    except TypeError:
        return False
    if mode == "events":
        return data["event"] in ("on_chain_end", "on_chat_model_end")
    message = data[0] if mode == "messages" and isinstance(data, list) else {}
    whole = isinstance(message, dict) and message.get("type") == "ai"
    return whole or mode in ("values", "updates", "messages/partial", "messages/complete") or mode.startswith("v3:")


def of_acp(event: Fields) -> bool:
    """A call as far as it has come, the sums of the session, and the end of a turn."""
    kind = event["params"]["update"]["sessionUpdate"] if event.get("method") == "session/update" else ""
    return kind in ("tool_call", "tool_call_update", "usage_update") or "stopReason" in (event.get("result") or ())


def of_raw(event: Fields) -> bool:
    return event["type"] == "raw_response_event" and event["data"].get("type") in RESPONSE


RESPONSE: Final = [f"response.{state}" for state in ("created", "queued", "in_progress", "completed", "incomplete")]
# A wire -> which of its events have something whole that they, or others, may tell again.
SNAPSHOTS: Final[dict[str, tuple[Is, ...]]] = {
    "a2a": (lambda event: "result" in event and "statusUpdate" in event["result"],),
    "acp": (of_acp,),
    "ag-ui": (of("type", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "ACTIVITY_SNAPSHOT", "CUSTOM", "RUN_FINISHED"),),
    "agents-sdk": (of("event", "tool.call", "status", "done"),),
    "anthropic": (
        of("type", "message_delta"),
        lambda event: event.get("type") == "message_start" and not event["message"].get("content"),
    ),
    "bedrock": (lambda event: "metadata" in event,),
    "claude-code": (
        of("type", "assistant", "user", "system", "result"),
        lambda event: (
            event.get("type") == "stream_event" and event["event"]["type"] in ("message_start", "message_delta")
        ),
    ),
    "codex": (of("type", "item.completed", "turn.completed"), of("method", "thread/tokenUsage/updated")),
    "cohere": (of("type", "message-start"),),
    "gemini": (lambda event: "usageMetadata" in event,),
    "gemini-cli": (of("type", "result"),),
    "gemini-interactions": (of("event_type", "interaction.created"),),
    "google-adk": (lambda event: True,),
    "langgraph": (of_langgraph,),
    "mastra": (of("type", "start", "finish"),),
    "mistral": (),  # the start of an answer begins it anew
    "ollama": (),  # each line is a piece, and the last one ends the call
    "openai-agents": (of_raw,),
    "openai-agents-js": (lambda event: (event.get("data") or {}).get("type") in ("response_started", "response_done"),),
    "openai-chat": (lambda event: bool(event.get("usage")),),
    "openai-realtime": (of("type", "response.output_item.done"),),
    "openai-responses": (of("type", *RESPONSE, "response.output_item.done"),),
    "opencode": (lambda event: bool(event.get("part")) or event["type"] == "message.part.updated",),
    "otel": (lambda event: True,),
    "pi-agent": (of("type", "message_update", "message_end", "turn_end", "agent_end"),),
    "pi-proxy": (of("type", "done"),),
    "pydantic-ai": (of("event_kind", "part_start", "part_end", "final_result", "agent_run_result"),),
    "strands": (lambda event: "metadata" in (event.get("event") or {}) or "message" in event,),
    "thread-protocol": (),  # each event is a turn of its own
    "vercel-ai": (of("type", "start", "data-sys-usage", "message-metadata", "finish"),),
}
CALLS: Final = (
    "anthropic",
    "bedrock",
    "cohere",
    "gemini-interactions",
    "openai-chat",
    "openai-realtime",
)  # the stream of a call: what follows its end belongs to the next one
GENERATED: Final[dict[str, st.SearchStrategy[list[Any]]]] = {
    "agents-sdk": agents_sdk_streams.streams().map(lambda made: made[0]),
    "google-adk": adk_streams.sessions().flatmap(adk_streams.streams),
    "openai-agents": openai_agents_streams.runs().flatmap(openai_agents_streams.streams),
    "openai-chat": chat_streams.runs().map(lambda made: made[0]),
    "pi-agent": pi_streams.runs().flatmap(pi_streams.agent_events),
    "pi-proxy": pi_streams.proxied().map(lambda made: made[0]),
    "vercel-ai": vercel_streams.streams().map(lambda made: made[0]),
}


def delivered(told: Told, rng: random.Random) -> list[Fields]:
    """The run's records in any batches, some twice, in any order."""
    cuts = sorted(rng.sample(range(1, len(told.events)), min(len(told.events) - 1, rng.randint(0, 6))))
    once = [told.envelope(first, last) for first, last in pairwise([0, *cuts, len(told.events)])]
    several = [*once, *rng.sample(once, len(once) // 2)]
    rng.shuffle(several)
    return several


def closed_early(told: Told, rng: random.Random) -> list[Any]:
    """The turns of a run that fell silent and was closed, then went on, by the same worker."""
    middle = rng.randint(0, len(told.events))
    first, rest = told.envelope(0, middle), told.envelope(middle)
    run = Run(first, DIALECTS[told.dialect], StoredRecord(b"", 0, first["ts"]))
    run.feed(first, StoredRecord(b"", 0, first["ts"]))
    early, _ = close(run, "timeout")
    if rest["events"]:
        run.feed(rest, StoredRecord(b"", 1, rest["ts"]))
        run.revision += 1
    return [*early, *close(run, run.verdict())[0]]


def check_replays(told: Told, rng: random.Random) -> None:
    whole = told.records()
    bill = billed(whole)
    assert billed([*whole, *told.records(delivered(told, rng))]) == bill
    assert billed(closed_early(told, rng)) == bill
    assert billed([*closed_early(told, rng), *whole]) == bill


def check_snapshots(told: Told) -> None:
    """Each of them comes twice, and the last one again behind the end, if the wire says more there."""
    bill = billed(told.records())
    whole = [any(kind(event) for kind in SNAPSHOTS[told.dialect]) for event in told.events]
    twice = [event for event, again in zip(told.events, whole, strict=True) for _ in range(1 + again)]
    assert billed(told.with_events(twice).records()) == bill
    if told.dialect not in CALLS and any(whole):
        last = next(event for event, again in zip(reversed(told.events), reversed(whole), strict=True) if again)
        assert billed(told.with_events([*twice, last]).records()) == bill


@pytest.mark.parametrize("dialect", DIALECTS)
def test_recordings(dialect: str) -> None:
    """A wire that is new needs a run with usage, and a line in each of the tables."""
    runs = told_runs(dialect)
    assert runs
    for told in runs:
        try:
            check_replays(told, random.Random(told.name))
            check_snapshots(told)
        except AssertionError as error:
            error.add_note(told.name)
            raise


@pytest.mark.parametrize("dialect", GENERATED)
@given(st.data(), st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_generated_runs(dialect: str, data: st.DataObject, rng: random.Random) -> None:
    told = Told(dialect, "generated", data.draw(GENERATED[dialect]))
    check_replays(told, rng)
    check_snapshots(told)


@pytest.mark.parametrize("thread", [None, OTHER_THREAD], ids=["resume", "fork"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_run_behind_another_one(dialect: str, thread: str | None) -> None:
    """The later run brings the history, in the same thread or in another one; old calls are not billed again."""
    form, ways = RESUMED[dialect]
    runs = told_runs(dialect)
    for number, told in enumerate(runs):
        others = (*runs[number + 1 :], *runs[:number])
        before = next((one for one in others if not ids_of(one.events) & ids_of(told.events)), None)
        if before is None:
            continue
        later = Told(dialect, told.name, told.events, told.run, thread or told.thread, "run-2")
        expected = billed(before.records()) + billed(later.records())
        for how in ways:
            behind = resumed(later, before, how, form)
            assert billed([*before.records(), *behind.records()]) == expected, (before.name, told.name)
