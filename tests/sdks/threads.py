"""The threads that the SDKs are given: the recorded runs of every wire, and generated ones."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.cli.files.assemble import assemble_file
from pipeline.dialects import DIALECTS, FORMATS
from tests.corpus import compare_pydantic, compare_wires
from tests.property import (
    adk_streams,
    agents_sdk_streams,
    chat_streams,
    openai_agents_streams,
    pi_streams,
    pydantic_streams,
    vercel_streams,
)
from tests.support.assembled import assembled

CORPUS = Path(__file__).parents[1] / "corpus"
STREAMS = {
    "pydantic-ai": ["pydantic-ai/*/*.pai_events.jsonl"],
    "vercel-ai": ["vercel-ai/*.sse", "pydantic-ai/*/*.vsp*.sse"],
    "pi-agent": ["pi-agent/*/*.agent_events.jsonl"],
    "pi-proxy": ["pi-proxy/*.proxy.sse"],
    "agents-sdk": ["agents-sdk/*.sse"],
    # in the neutral form of tests/corpus/wires:
    "ag-ui": [],
    "anthropic": [],
    "claude-code": [],
    "google-adk": [],
    "langgraph": [],
    "openai-agents": [],
    "openai-chat": [],
    "openai-responses": [],
}
GENERATED = 60  # runs of each wire that has a generator

Thread = dict[str, Any]


@cache
def recorded(dialect: str) -> dict[str, Thread]:
    """The recorded runs of one wire, assembled; those of Pydantic AI also as an event handler sees them."""
    files = sorted(path for pattern in STREAMS[dialect] for path in CORPUS.glob(pattern))
    found = {
        str(file.relative_to(CORPUS)): assemble_file(file, DIALECTS[dialect], FORMATS["thread"])["thread"]
        for file in files
    }
    for recording in compare_wires.recordings(dialect):
        found[f"{dialect}/{recording.stream.stem}"] = recording.assembled()
    if dialect == "pydantic-ai":
        for run in compare_pydantic.recordings():
            events = [event for event in run.events if event.get("event_kind") != "agent_run_result"]
            end = "complete" if run.complete else "error"
            found[f"{run.name} (events alone)"] = compare_pydantic.assembled(events, end=end)
    return found


@cache
def generated(dialect: str) -> dict[str, Thread]:
    """Runs that Hypothesis makes up, the same each time."""
    if dialect not in RUNS:
        return {}
    found: list[Thread] = []

    @settings(
        derandomize=True,
        max_examples=GENERATED,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(RUNS[dialect])
    def collect(events: list[dict[str, Any]]) -> None:
        found.append(assembled(dialect, events, end="complete").document)

    collect()
    return {f"generated {number}": thread for number, thread in enumerate(found)}


@st.composite
def _pi_runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    return draw(pi_streams.agent_events(draw(pi_streams.runs())))


@st.composite
def _adk_runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    return draw(adk_streams.streams(draw(adk_streams.sessions())))


@st.composite
def _openai_agents_runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    return draw(openai_agents_streams.streams(draw(openai_agents_streams.runs())))


RUNS: dict[str, st.SearchStrategy[list[dict[str, Any]]]] = {
    "pydantic-ai": pydantic_streams.streams().map(lambda made: made.events),
    "vercel-ai": vercel_streams.streams().map(lambda made: made[0]),
    "pi-agent": _pi_runs(),
    "agents-sdk": agents_sdk_streams.streams().map(lambda made: made[0]),
    "openai-agents": _openai_agents_runs(),
    "openai-chat": chat_streams.runs().map(lambda made: made[0]),
    "google-adk": _adk_runs(),
}


def all_threads(dialect: str) -> Iterator[tuple[str, Thread]]:
    yield from recorded(dialect).items()
    yield from generated(dialect).items()


@cache
def exports(form: str) -> dict[str, Any]:
    """The threads of every wire as messages of one format, by "WIRE: NAME"."""
    write = FORMATS[form].write
    return {f"{dialect}: {name}": write(thread) for dialect in STREAMS for name, thread in all_threads(dialect)}


def of_wire(dialect: str, found: dict[str, Any]) -> dict[str, Any]:
    """Those of the threads of one wire."""
    return {name: problem for name, problem in found.items() if name.startswith(f"{dialect}: ")}
