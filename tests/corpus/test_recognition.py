"""Each recording is of its own wire by its first events. Some could be of another one, too, and a few hold none."""

from pathlib import Path

import pytest

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import Recognition, UnknownWire, recognise
from turnmill.wire.framing import decode

CORPUS = Path(__file__).parent
# What the first events leave open, or nothing of it is an event of its wire. By the folder and the file's beginning.
OPEN: dict[tuple[str, str], tuple[str, ...]] = {
    ("pi-proxy", "px_multiline_data"): ("pi-proxy", "vercel-ai"),  # all that its client reads is a `start`
    ("pi-proxy", "px_data_no_space"): ("vercel-ai",),  # its client reads nothing; others read its `start`
    # A request, which is an event of many wires, and one event.
    ("ollama", "cut-in-call"): ("anthropic", "langgraph", "ollama"),
    ("ollama", "empty"): ("anthropic", "langgraph", "ollama"),
    ("ollama", "no-end"): ("anthropic", "langgraph", "ollama"),
    ("vercel-ai", "hostile-legacy-v4-data-stream"): (),  # the protocol of another major version
    ("vercel-ai", "hostile-only-done"): (),
}
EMPTY = {("vercel-ai", "hostile-empty-body")}


def wire_of(path: Path) -> str:
    """The wire of a recording, by its folder and name."""
    folder = path.relative_to(CORPUS).parts
    if folder[0] == "pydantic-ai":
        return "vercel-ai" if path.suffix == ".sse" else "pydantic-ai"
    return folder[1] if folder[0] in ("wires", "model_runs") else folder[0]


RECORDINGS = [
    path
    for path in sorted(CORPUS.rglob("*"))
    if path.suffix in (".sse", ".jsonl") and not path.name.endswith(".proxy.events.jsonl")
]


def told(path: Path) -> str | tuple[str, ...] | None:
    try:
        found = recognise(path.read_bytes())
    except UnknownWire as error:
        return error.could_be
    return found.name if found else None


@pytest.mark.parametrize("wire", sorted({wire_of(path) for path in RECORDINGS}))
def test_each_recording_is_of_its_own_wire(wire: str) -> None:
    wrong = {}
    for path in RECORDINGS:
        if wire_of(path) == wire:
            key = (wire, path.name.split(".")[0])
            expected = None if key in EMPTY else OPEN.get(key, wire)
            if (got := told(path)) != expected:
                wrong[path.name] = got
    assert wrong == {}


def known(path: Path) -> dict[str, int]:
    """How many events of a recording each wire knows."""
    counts = {}
    for name, dialect in DIALECTS.items():
        events = [item.event for item in decode(path.read_bytes(), dialect.wire)]
        counts[name] = sum(event is not None and dialect.knows(event) for event in events)
    return counts


@pytest.mark.parametrize("wire", sorted({wire_of(path) for path in RECORDINGS}))
def test_no_other_wire_knows_as_many_events(wire: str) -> None:
    """Every recording against every wire; of a few, nothing but the first event is of any wire."""
    wrong = {}
    for path in RECORDINGS:
        key = (wire, path.name.split(".")[0])
        if wire_of(path) == wire and key not in EMPTY and key not in OPEN:
            counts = known(path)
            others = {name: count for name, count in counts.items() if name != wire and count >= counts[wire]}
            if others:
                wrong[path.name] = (counts[wire], others)
    assert wrong == {}


def test_chunks_change_nothing() -> None:
    for path in RECORDINGS[:: len(RECORDINGS) // 60]:
        stream, answers = path.read_bytes()[:20_000], set()
        for size in (1, 50, 1000):
            recognition = Recognition()
            chunks = (stream[at : at + size] for at in range(0, len(stream), size))
            answers.add(next((found.name for chunk in chunks if (found := recognition.feed(chunk))), None))
        assert len(answers) == 1, path.name


def test_a_wire_without_a_recogniser_is_told_by_its_types() -> None:
    assert DIALECTS["ag-ui"].knows({"type": "RUN_STARTED"})
    assert not DIALECTS["ag-ui"].knows({"type": "RUN_STROLLED"})
    assert not DIALECTS["ag-ui"].knows({"type": ["RUN_STARTED"]})
