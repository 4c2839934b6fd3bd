"""`turnmill assemble`: files in, one JSON object a line out; what is wrong with a call."""

import json

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid

SSE = "".join(
    f"data: {event}\n\n"
    for event in ('{"type":"start"}', '{"type":"text-start","id":"t"}', '{"type":"text-delta","id":"t","delta":"Hi"}')
)
END = 'data: {"type":"text-end","id":"t"}\n\ndata: {"type":"finish"}\n\ndata: [DONE]\n\n'


def run(*args):
    result = CliRunner().invoke(cli, ["assemble", *map(str, args)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def stream(tmp_path):
    file = tmp_path / "one.sse"
    file.write_text(SSE + END)
    return file


def sidecar(file, text):
    file.with_name(f"{file.name}.run.json").write_text(text)


def test_a_line_for_each_file_in_order(stream, tmp_path):
    broken = tmp_path / "two.sse"
    broken.write_text(SSE + "data: {nonsense\n\n" + 'data: {"type":"text-end","id":"u"}\n\n')
    first, second = run("--dialect", "vercel-ai", "--to", "vercel-ai", stream, broken)
    assert [first["source"], second["source"]] == [str(stream), str(broken)]
    assert first["messages"][0]["parts"][1]["text"] == "Hi"
    assert first["dead_letters"] == []
    assert first["thread"]["turns"][0]["completion_status"] == "complete"
    assert [letter["reason"] for letter in second["dead_letters"]] == ["undecodable", "invalid_event"]
    assert second["dead_letters"][0]["detail"].startswith("line 7: not JSON")
    assert second["thread"]["turns"][0]["interruption"]["reason"] == "network_failure"


def test_the_same_file_gives_the_same_line(stream):
    args = ("--dialect", "vercel-ai", "--to", "thread", stream)
    assert run(*args) == run(*args)
    assert run(*args)[0]["messages"] == []
    assert run(*args)[0]["thread"]["thread_id"] == thread_uuid("one.sse")[0]


def test_the_context_of_a_run_lies_beside_its_stream(stream):
    stream.write_text(SSE + 'data: {"type":"text-end","id":"t"}\n\n')
    info = {
        "thread_id": "chat 7",
        "run_id": "r1",
        "agent_id": "a1",
        "agent_name": "Ann",
        "model_name": "m",
        "end": "complete",
    }
    info |= {"started_at": "2026-01-20T16:59:02Z", "request": {"messages": [{"role": "user", "content": "Hello"}]}}
    sidecar(stream, json.dumps(info))
    (line,) = run("--dialect", "vercel-ai", "--to", "vercel-ai", stream)
    thread = line["thread"]
    assert thread["thread_id"] == thread_uuid("chat 7")[0]
    assert thread["metadata"] == {"meta:external_id": "chat 7"}
    assert thread["agents"]["a1"]["agent_name"] == "Ann"
    user, agent = thread["turns"]
    assert user["submitted_at"] == agent["started_at"] == "2026-01-20T16:59:02.000Z"
    assert (agent["completion_status"], agent["messages"][0]["model_name"]) == ("complete", "m")
    assert [message["role"] for message in line["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("text", ["{", "[]", '{"end": "perhaps"}'])
def test_a_context_that_is_none(stream, text):
    sidecar(stream, text)
    with pytest.raises(CallerError, match=r"one\.sse\.run\.json"):
        run("--dialect", "vercel-ai", "--to", "thread", stream)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(CallerError, match=r"can't read .*nowhere") as caught:
        run("--dialect", "vercel-ai", "--to", "thread", tmp_path / "nowhere")
    assert caught.value.exit_code == 2


def test_the_dialect_is_told_where_nobody_names_it(stream):
    (line,) = run("--to", "thread", stream)
    (named,) = run("--dialect", "vercel-ai", "--to", "thread", stream)
    assert line == named | {"dialect": "vercel-ai"}
    sidecar(stream, '{"dialect": "pydantic-ai"}')
    (line,) = run("--to", "thread", stream)
    assert line["dialect"] == "pydantic-ai", "the file beside it knows"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type":"start"}', "could be pi-proxy, vercel-ai; name it with --dialect"),
        ('{"type":"smoke"}', "no wire knows its first events; there are .*vercel-ai; name it with --dialect"),
        ("", "no event is in it; name its dialect with --dialect"),
    ],
)
def test_a_stream_that_does_not_tell_its_dialect(stream, text, said):
    stream.write_text(text)
    with pytest.raises(CallerError, match=said) as caught:
        run("--to", "thread", stream)
    assert caught.value.exit_code == 2
    sidecar(stream, '{"dialect": "smoke"}')
    with pytest.raises(CallerError, match=r"one\.sse\.run\.json: no dialect is called 'smoke'"):
        run("--to", "thread", stream)


def test_files_of_unknown_dialect_keep_no_other_from_being_done(stream, tmp_path):
    first, last = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"type": "turnmill.error", "status": 401, "body": {"error": {"message": "Incorrect API key"}}}\n')
    last.write_text('{"event": "message", "task_id": "t", "message_id": "m"}\n')
    result = CliRunner().invoke(cli, ["assemble", "--to", "thread", *map(str, (first, stream, last))])
    assert [json.loads(line)["source"] for line in result.stdout.splitlines()] == [str(stream)]
    assert isinstance(result.exception, CallerError)
    assert "Dify" in str(result.exception)
    assert "a.jsonl: the stream does not tell its dialect" in result.stderr
    sidecar(first, '{"request": {"model": "m", "input": "hello"}}')
    result = CliRunner().invoke(cli, ["assemble", "--to", "thread", str(first)])
    assert json.loads(result.stdout)["dialect"] == "openai-responses"
