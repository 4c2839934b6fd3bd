"""Wires that are another one's kin: the ways in which their records may come, and events that are none."""

import copy
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.dialect import Violation
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.dialects import DIALECTS
from pipeline.dialects.kin import STATE
from tests.property.test_hostile_events import broken, streams
from tests.support.told_runs import Told
from turnmill.errors import InvalidRecord

KIN = (
    "bedrock",
    "cohere",
    "gemini-interactions",
    "mastra",
    "mistral",
    "ollama",
    "openai-agents-js",
    "openai-realtime",
    "strands",
)


def delivered(told: Told, rng: random.Random) -> list[Any]:
    """The run's records in any batches, some twice, in any order."""
    count = len(told.events)
    cuts = sorted(rng.sample(range(1, count), min(count - 1, rng.randint(0, 6))))
    once = [told.envelope(first, last) for first, last in pairwise([0, *cuts, count])]
    several = [*once, *rng.sample(once, len(once) // 2)]
    rng.shuffle(several)
    return several


@pytest.mark.parametrize("dialect", KIN)
@settings(max_examples=40)
@given(seed=st.integers(0, 10**9))
def test_batches_copies_and_disorder_change_nothing(dialect: str, seed: int) -> None:
    rng = random.Random(seed)
    told = Told(dialect, "made", list(rng.choice(streams(dialect))))
    assert told.records(delivered(told, rng)) == told.records()


def fed(dialect: str, events: list[Any]) -> Run:
    envelope = Told(dialect, "made", events).envelope()
    run = Run(envelope, DIALECTS[dialect], StoredRecord(b"", 0, envelope["ts"]))
    run.feed(envelope, StoredRecord(b"", 0, envelope["ts"]))
    return run


def state_of(run: Run) -> Any:
    """What a run remembers of its events; of the blocks of an answer their keys and the newest."""
    held = copy.deepcopy(run.builder.scratch[STATE])
    return {key: (value.known, value.index) if hasattr(value, "known") else value for key, value in held.items()}


@pytest.mark.parametrize("dialect", KIN)
@settings(max_examples=120)
@given(seed=st.integers(0, 10**9))
def test_an_event_that_is_none_is_refused_and_leaves_nothing_behind(dialect: str, seed: int) -> None:
    rng = random.Random(seed)
    events = rng.choice(streams(dialect))
    at = rng.randrange(len(events))
    event = broken(copy.deepcopy(events[at]), rng)
    run = fed(dialect, copy.deepcopy(events[:at]) or [{}])
    before = state_of(run)
    if isinstance(event, dict):
        try:
            DIALECTS[dialect].unknown(run.builder, event)
        except (Violation, KeyError, TypeError, InvalidRecord):
            assert state_of(run) == before
