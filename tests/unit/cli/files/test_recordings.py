"""What is published of a file, and what is said of one that can't be."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pipeline.cli.files.recordings import Envelopes, Found, Stream, files_of, read
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid
from turnmill.limits import RECORD_BYTES

CORPUS = Path(__file__).parents[3] / "corpus"
THREAD = "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01"
SSE = 'data: {"type":"start"}\n\ndata: {"type":"finish"}\n\ndata: [DONE]\n\n'
EVENTS = ({"type": "start"}, {"type": "finish"})


def envelope(**fields: Any) -> str:
    known = {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "seq": 0, "ts": 1000, "dialect": "vercel-ai"}
    return json.dumps(known | {"events": [{"type": "start"}]} | fields)


def found(folder: Path, text: str | bytes, wire: str | None = "vercel-ai", **info: Any) -> Found:
    file = folder / "file.sse"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    if info:
        (folder / "file.sse.run.json").write_text(json.dumps(info))
    return read(file, wire, {})


def problems(folder: Path, text: str | bytes, wire: str | None = "vercel-ai", **info: Any) -> list[str]:
    what = found(folder, text, wire, **info)
    assert what.recordings == ()
    return [problem.removeprefix(f"{folder}/file.sse") for problem in what.problems]


def test_a_stream_with_its_context(tmp_path: Path) -> None:
    context = {"thread_id": "chat 1", "run_id": "r1", "agent_id": "weather", "started_at": "2026-01-20T10:00:00Z"}
    more = {"model_name": "m", "request": {"messages": []}, "tenant": "acme", "end": "aborted", "note": "not published"}
    (stream,) = found(tmp_path, SSE, None, dialect="vercel-ai", **context, **more).recordings
    assert stream == Stream(
        source=str(tmp_path / "file.sse"),
        dialect="vercel-ai",
        thread_id="chat 1",
        run_id="r1",
        agent_id="weather",
        events=EVENTS,
        info={"model_name": "m", "started_at": "2026-01-20T10:00:00Z", "request": {"messages": []}},
        started=1768903200000,
        end="aborted",
        tenant="acme",
    )


def test_ids_that_are_nowhere_are_new_ones(tmp_path: Path) -> None:
    (one,), (two,) = (found(tmp_path, SSE).recordings for _ in range(2))
    assert isinstance(one, Stream)
    assert isinstance(two, Stream)
    assert len({UUID(text) for text in (one.thread_id, one.run_id, two.thread_id, two.run_id)}) == 4
    assert (one.agent_id, one.end, one.started) == ("agent", "disconnected", None)


def test_what_the_command_says_wins(tmp_path: Path) -> None:
    found(tmp_path, '{"event_kind":"part_start"}\n', None, dialect="vercel-ai", thread_id="t", run_id="r")
    what = read(tmp_path / "file.sse", "pydantic-ai", {"thread_id": "mine", "agent_id": "me"})
    (stream,) = what.recordings
    assert isinstance(stream, Stream)
    assert (stream.dialect, stream.thread_id, stream.run_id, stream.agent_id) == ("pydantic-ai", "mine", "r", "me")


def test_copies_are_other_runs_in_other_threads(tmp_path: Path) -> None:
    (stream,) = found(tmp_path, SSE, thread_id="t", run_id="r").recordings
    assert isinstance(stream, Stream)
    assert (stream.copy(2, same_thread=False).thread_id, stream.copy(2, same_thread=False).run_id) == ("t-2", "r-2")
    assert (stream.copy(3, same_thread=True).thread_id, stream.copy(3, same_thread=True).run_id) == ("t", "r-3")


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ("", "vercel-ai", [": no event is in it"]),
        ("data: [DONE]\n\n", "vercel-ai", [": no event is in it"]),
        ('{"type":"start"}', None, [": the stream does not tell its dialect: it could be pi-proxy, vercel-ai;"]),
        ('{"type":"smoke"}', None, [": the stream does not tell its dialect: no wire knows its first events; "]),
        ("", None, [": no event is in it"]),
        ('data: {"type":"start"}\n\ndata: {"type":\n\n', "vercel-ai", [": line 3: not JSON in UTF-8: "]),
        ('{"type":"start"}\n["list"]\n', "vercel-ai", [": line 2: an event is a JSON object, not list"]),
        (
            '{"type":"start"}\n{"kind":"x"}\n',
            "vercel-ai",
            [": line 2: an event of vercel-ai needs a string 'type', got None"],
        ),
        ('{"type":7}\n', "vercel-ai", [": line 1: an event of vercel-ai needs a string 'type', got 7"]),
        (
            '\n{"type":"a"}\n{"type":"b"}\n',
            "vercel-ai",
            [": line 2: 'a' is no event of vercel-ai, nor is any other here"],
        ),
        ('{"a":1}\n', "openai-chat", [": line 1: this is no event of openai-chat, nor is any other here"]),
        (
            SSE.replace("data: [DONE]", ""),
            "pydantic-ai",
            [
                ": line 1: an event of pydantic-ai needs a string 'event_kind', got None",
                ": line 3: an event of pydantic-ai needs a string 'event_kind', got None",
                ": it looks like --dialect vercel-ai",
            ],
        ),
        (
            '{"type":"start"}\n{"type":"text-start","id":"t"}\n{"type":"data-note","data":1}\n{"type":"finish"}\n',
            "anthropic",
            [
                ": line 1: 'start' is no event of anthropic, nor is any other here",
                ": it looks like --dialect vercel-ai",
            ],
        ),
        (
            "not a stream\nat all\n\x00\n",
            "vercel-ai",
            [": line 1: not JSON", ": line 2: not JSON", ": line 3: not JSON"],
        ),
        # Three dialects have a `start`: no hint is better than any of them.
        ('{"type":"start"}\n{"oops"\n', "pi-agent", [": line 2: not JSON"]),
        (envelope() + "\n" + envelope(seq=-1), None, [": line 2: seq: 0 or more is expected"]),
        (envelope() + "\n{", None, [": line 2: undecodable: not JSON in UTF-8"]),
        (envelope() + "\n\n" + envelope(run="text"), None, [": line 3: run: "]),
    ],
)
def test_why_a_file_is_not_published(tmp_path: Path, text: str, dialect: str | None, expected: list[str]) -> None:
    said = problems(tmp_path, text, dialect)
    assert len(said) == len(expected)
    for line, beginning in zip(said, expected, strict=True):
        assert line.startswith(beginning)


def test_many_problems_are_counted(tmp_path: Path) -> None:
    assert problems(tmp_path, "x\n" * 100)[-1] == ": and 97 more"


@pytest.mark.parametrize("line", [SSE + 'data: {"type":"text-delta","delta":"%s"}\n\n', envelope(tenant="%s")])
def test_what_no_record_holds_is_found_before(tmp_path: Path, line: str) -> None:
    (problem,) = problems(tmp_path, line % ("x" * RECORD_BYTES))
    assert re.match(r": line \d: the (event|record) has 900,\d\d\d bytes, and", problem)


def test_unknown_types_among_known_ones_are_only_odd(tmp_path: Path) -> None:
    text = SSE + 'data: {"type":"sparkle"}\n\n' * 2 + 'data: {"type":"data-mine","data":1}\n\n'
    what = found(tmp_path, text)
    assert len(what.recordings) == 1
    (warning,) = what.warnings
    assert warning.endswith("types that vercel-ai does not know are published as they are: sparkle (2)")


def test_the_first_events_tell_the_dialect(tmp_path: Path) -> None:
    what = found(tmp_path, SSE, None)
    (stream,) = what.recordings
    assert isinstance(stream, Stream)
    assert (stream.dialect, stream.events) == ("vercel-ai", EVENTS)
    assert what.warnings == (f"{tmp_path}/file.sse: read as vercel-ai, by its first events",)


@pytest.mark.parametrize(("name", "count"), [("tools-2", 6), ("cut-in-frame", 2)])
def test_binary_frames_are_published_without_a_dialect(name: str, count: int) -> None:
    file = CORPUS / "wires" / "bedrock" / f"{name}-frames.bin"
    (stream,) = read(file, None, {}).recordings
    assert isinstance(stream, Stream)
    assert (stream.dialect, len(stream.events)) == ("bedrock", count)


def test_a_binary_file_with_a_wrong_frame_is_not_published() -> None:
    file = CORPUS / "wires" / "bedrock" / "bad-crc-frames.bin"
    what = read(file, None, {})
    assert (what.recordings, what.problems) == ((), (f"{file}: a frame has a wrong checksum",))


def test_the_context_of_a_stream_is_no_stream(tmp_path: Path) -> None:
    context = tmp_path / "file.sse.run.json"
    context.write_text('{"dialect": "vercel-ai"}')
    assert read(context, None, {}).problems == (
        f"{context}: a run's context, not its stream: name {tmp_path}/file.sse",
    )


def test_a_dialect_that_is_none(tmp_path: Path) -> None:
    assert problems(tmp_path, SSE, None, dialect="smoke") == [".run.json: no dialect is called 'smoke'"]


def test_envelopes_are_kept_to_the_byte_one_recording_a_thread(tmp_path: Path) -> None:
    other = "b" * 8 + THREAD[8:]
    lines = [envelope(), envelope(thread_id=other, ts=1001), envelope(run_id="r2", seq=5, extra="  kept ", ts=1002)]
    first, second = found(tmp_path, "\n".join(lines), None).recordings
    source = str(tmp_path / "file.sse")
    assert first == Envelopes(source, THREAD, 2, 2, ((1000, lines[0].encode()), (1002, lines[2].encode())))
    assert second == Envelopes(source, other, 1, 1, ((1001, lines[1].encode()),))


def test_copies_of_envelopes_are_other_runs_too(tmp_path: Path) -> None:
    (original,) = found(tmp_path, envelope() + "\n" + envelope(run_id="r2", extra=1), None).recordings
    copied = original.copy(2, same_thread=False)
    assert isinstance(copied, Envelopes)
    thread_id, _ = thread_uuid(f"{THREAD}-2")
    values = [json.loads(value) for _, value in copied.records]
    assert values == [
        json.loads(envelope(thread_id=thread_id, run_id="r-2")),
        json.loads(envelope(thread_id=thread_id, run_id="r2-2", extra=1)),
    ]
    assert copied.thread_id == thread_id
    kept = original.copy(3, same_thread=True)
    assert kept.thread_id == THREAD


def test_files_of_folders(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.sse", "a.sse.run.json", "sub/c.ndjson", "notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    single = tmp_path / "notes.md"
    names = [file.relative_to(tmp_path).as_posix() for file in files_of([single, tmp_path])]
    assert names == ["notes.md", "a.sse", "b.jsonl", "sub/c.ndjson"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(CallerError, match=r"empty holds no stream: files named \*\.sse"):
        files_of([tmp_path / "empty"])
