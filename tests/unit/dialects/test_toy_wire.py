"""The wire that docs/adding/wire.md writes works as the page says, and is found wherever wires are: by one folder and
one line, both taken from the page.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pipeline.dialects
from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Dialect, Shown
from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from tests.property.records import envelope
from tests.support import toy_wire
from tests.support.assembled import Assembled, assembled
from tests.support.toy_wire import STREAM
from topics.thread_rules import check
from topics.turn_record import encode
from turnmill.wire import registry as wires
from turnmill.wire.framing import decode
from turnmill.wire.registry import WIRES

QUESTION = {"request": {"question": "Weather in Paris?"}}


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Dialect]:
    """In this process: the folder lies elsewhere."""
    toy_wire.write(tmp_path)
    here = [*pipeline.dialects.__path__, str(tmp_path / "pipeline" / "dialects")]
    monkeypatch.setattr(pipeline.dialects, "__path__", here)
    monkeypatch.setitem(WIRES, "toy", eval(f"{{{toy_wire.LINE}}}", {**vars(wires)})["toy"])
    dialect: Dialect = import_module("pipeline.dialects.toy").DIALECT
    monkeypatch.setitem(DIALECTS, dialect.name, dialect)
    yield dialect
    for name in [name for name in sys.modules if name.startswith("pipeline.dialects.toy")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program, with the folder and the line."""
    return toy_wire.program(tmp_path_factory.mktemp("program"))


def events(toy: Dialect, stream: str = STREAM) -> list[dict[str, Any]]:
    return [item.event for item in decode(stream.encode(), toy.wire) if item.event is not None]


def run(toy: Dialect, *more: dict[str, Any], **rest: Any) -> Assembled:
    return assembled("toy", [*events(toy)[:-1], *more, events(toy)[-1]], **rest)


def test_the_page_is_a_whole_conversation(toy: Dialect) -> None:
    got = run(toy, run=QUESTION)
    assert not got.refused
    assert not check(got.document)
    assert [part["content"] for turn in got.user_turns for part in turn["parts"]] == ["Weather in Paris?"]
    (turn,) = got.agent_turns
    assert turn["completion_status"] == "complete"
    first, answer, last = turn["messages"]
    assert [part.get("content", part.get("args")) for part in first["parts"]] == ["Let me look.", {"city": "Paris"}]
    assert [(part["status"], part["content"]) for part in answer["parts"]] == [("success", {"temp": "72F"})]
    assert [part["content"] for part in last["parts"]] == ["72F."]
    assert last["usage"] == {"input_tokens": 130, "output_tokens": 35}
    (ui,) = [message for message in got.export("vercel-ai") if message["role"] == "assistant"]
    assert [part["type"] for part in ui["parts"]] == ["step-start", "text", "tool-get_weather", "step-start", "text"]


def test_text_between_a_call_and_its_result_stays(toy: Dialect) -> None:
    said = events(toy)
    got = assembled("toy", [*said[:3], {"t": "say", "text": "One moment."}, *said[3:]])
    texts = [part["content"] for part in got.parts("response") if part["part_kind"] == "text"]
    assert texts == ["Let me look.", "One moment.", "72F."]


def test_sse_reads_like_lines(toy: Dialect) -> None:
    stream = "".join(f"data: {line}\n\n" for line in STREAM.splitlines())
    assert events(toy, stream) == events(toy) == [json.loads(line) for line in STREAM.splitlines()]


def test_any_batches_give_the_same_turn(toy: Dialect) -> None:
    whole = events(toy)
    one_by_one = assembled("toy", *([event] for event in whole))
    assert [record["hash"] for record in one_by_one.records] == [record["hash"] for record in run(toy).records]


@pytest.mark.parametrize(
    ("event", "refusal"),
    [
        ({"t": "result", "id": "c9", "value": 1}, "protocol_violation: result: no call has the id 'c9'"),
        ({"t": "say"}, "invalid_event: say: 'text' is missing"),
        ({"t": "say", "text": 5}, "invalid_event: say: TypeError"),
        ({"t": "call", "id": "c2"}, "invalid_event: call: 'tool' is missing"),
        ({"t": 5}, "invalid_event: an event needs a string 't'"),
    ],
)
def test_a_bad_event_is_refused_and_leaves_no_trace(toy: Dialect, event: dict[str, Any], refusal: str) -> None:
    got = run(toy, event)
    (refused,) = got.refused
    reason, detail = refused.split(": seq 0+: ")
    assert f"{reason}: {detail}".startswith(refusal)
    assert [record["hash"] for record in got.records] == [record["hash"] for record in run(toy).records]


def test_what_is_not_known_is_kept(toy: Dialect) -> None:
    got = run(toy, {"t": "wave", "hands": 2})
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [("data-app-wave", {"hands": 2})]


def test_a_stream_that_breaks_off_keeps_complete_cycles(toy: Dialect) -> None:
    got = assembled("toy", events(toy)[:3], end="disconnected")
    assert got.agent_turns[0]["completion_status"] == "interrupted"
    assert got.agent_turns[0]["messages"] == []


def test_its_deltas_are_applied_at_once_as_one_by_one(toy: Dialect) -> None:
    said = [{"t": "say", "text": f"{word} "} for word in ("Let", "me", "look")]
    odd: list[dict[str, Any]] = [{"t": "say", "text": "at", "loud": True}, {"t": "say", "text": 5}, {"t": "say"}]
    stream = [*said, *odd, *said, *events(toy)[2:4], *said, events(toy)[-1]]
    handled: list[dict[str, Any]] = []

    def counted(builder: Builder, event: dict[str, Any]) -> None:
        handled.append(event)
        toy.handlers["say"](builder, event)

    counting = replace(toy, handlers={**toy.handlers, "say": counted})
    records, refused = assemble(counting, [envelope("toy", stream, 0)])
    assert handled == [said[0], *odd, said[0]], "those that open a text, and the unusual ones"
    alone, refused_alone = assemble(toy, [envelope("toy", [event], seq) for seq, event in enumerate(stream)])
    assert [encode(record) for record in records] == [encode(record) for record in alone]
    assert [refusal.reason for refusal in refused] == [refusal.reason for refusal in refused_alone]


def test_its_deltas_are_shown_and_expected(toy: Dialect) -> None:
    assert toy.shows({"t": "say", "text": "72F."}) == [Shown("text", "72F.")]
    assert [toy.shows(event) for event in ({"t": "say", "text": 5}, {"t": "bye"}, None)] == [(), (), ()]
    assert [delta.text for delta in toy.deltas["say"]] == [("text",)]


def test_the_command_line_offers_it(program: Path) -> None:
    known = "|".join(sorted({*WIRES, "toy"}))
    formats = "|".join(["thread", *sorted({*FORMATS, "toy"} - {"thread"})])
    for command, choices in (
        ("assemble", known),
        ("assemble", formats),
        ("export", formats),
        ("publish", known),
        ("hash", "|toy|"),
    ):
        shown = "".join(toy_wire.run(program, "-m", "pipeline", command, "--help").split())
        assert choices in shown, command


def test_a_file_of_it_is_assembled_and_exported(program: Path, tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(STREAM)
    (tmp_path / "run.jsonl.run.json").write_text(json.dumps(QUESTION))
    stream = str(tmp_path / "run.jsonl")
    told = json.loads(toy_wire.run(program, *["-m", "pipeline", "assemble", "--dialect", "toy", "--to", "toy"], stream))
    assert told["dead_letters"] == []
    assert told["messages"] == [
        {"who": "user", "says": "Weather in Paris?"},
        {"who": "agent", "says": "Let me look."},
        {"who": "agent", "says": "72F."},
    ]
    document = tmp_path / "thread.json"
    document.write_text(json.dumps(told["thread"]))
    hashed = toy_wire.run(program, "-m", "pipeline", "hash", "--wire", "toy", "--wire", "vercel-ai", str(document))
    assert len(hashed.splitlines()) == 2


def test_the_docs_have_its_tables(program: Path) -> None:
    page, table = program / "docs" / "dialects" / "toy.md", program / "docs" / "dialects.md"
    glance = "| at a glance | |\n|---|---|\n| SDK | nobody's |\n"
    page.write_text(f"# toy\n\n{glance}\n<!-- generated: events-toy -->\n<!-- end -->\n")
    assert toy_wire.run(program, "docs/generate.py").splitlines() == [
        *("toy.md: written", "dialects.md: written"),
        "events.v1.json: written",  # its schema gives the names of all wires as examples
    ]
    written = page.read_text()
    assert "| say | extends the text of the response |" in written
    assert "| [`toy`](dialects/toy.md) | nobody's |" in table.read_text()
    assert "| `toy` | model, provider | from the publisher's `run` |" in table.read_text(), "of the shared hash"


def test_asyncapi_has_it(program: Path) -> None:
    described = json.loads(toy_wire.run(program, "-m", "pipeline", "topics", "asyncapi"))
    assert "toy" in described["components"]["schemas"]["AgentEvent"]["properties"]["dialect"]["examples"]


def test_a_benchmark_has_a_run_of_it(program: Path) -> None:
    script = "from tests.bench.streams import STREAMS; print(len(STREAMS['toy'](['a', 'b'])))"
    assert toy_wire.run(program, "-c", script) == "3\n"
