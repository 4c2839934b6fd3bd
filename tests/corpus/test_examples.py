"""The recordings that the demo plays: one agent at least on each wire that an SDK or a server speaks."""

import runpy
from pathlib import Path

import pytest

from pipeline.cli.dev.demo import OF_WIRES, RECORDINGS
from pipeline.cli.files.recordings import Stream, files_of, read
from tests.corpus.compare_wires import errors
from tests.support.assembled import assembled

NEWER = ("ag-ui", "anthropic", "claude-code", "google-adk", "langgraph", "openai-agents", "openai-chat")
FILES = files_of([OF_WIRES])


def stream(file: Path) -> Stream:
    found = read(file, None, {})
    assert not found.problems
    recording = found.recordings[0]
    assert isinstance(recording, Stream)
    return recording


def test_all_wires_are_in_the_fleet() -> None:
    spoken = {stream(file).dialect for file in FILES}
    assert spoken == {*NEWER, "openai-responses"}
    assert not spoken & {folder.name for folder in RECORDINGS.iterdir()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_run_is_a_whole_conversation_with_its_tokens(file: Path) -> None:
    run = stream(file)
    got = assembled(run.dialect, list(run.events), run=run.info, end=run.end)
    assert (got.refused, errors(got.document)) == ([], [])
    assert [turn["turn_type"] for turn in got.turns] == ["user", "agent"]
    assert "interruption" not in got.agent_turns[0]
    parts = [part["part_kind"] for part in [*got.parts("response"), *got.parts("request")]]
    assert parts in (["text"], ["tool-call", "text", "tool-return"])
    assert got.messages("response")[-1]["usage"]["output_tokens"] > 0


def test_the_recordings_are_what_the_script_writes(tmp_path: Path) -> None:
    script = OF_WIRES.parent / "write_wires.py"
    module = runpy.run_path(str(script))
    (tmp_path / "wires.json").write_bytes((OF_WIRES.parent / "wires.json").read_bytes())
    module["main"].__globals__["HERE"] = tmp_path
    module["main"]()
    written = {file.relative_to(tmp_path): file.read_bytes() for file in (tmp_path / "wires").rglob("*.*")}
    kept = {file.relative_to(OF_WIRES.parent): file.read_bytes() for file in OF_WIRES.rglob("*.*")}
    assert written == kept
