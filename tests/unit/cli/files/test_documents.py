"""`turnmill convert`, `hash` and `import`: what they print, and what they say of files that don't fit."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pipeline.cli.files.documents import convert, hash_
from pipeline.cli.histories.messages import import_
from turnmill.errors import CallerError

CORPUS = Path(__file__).parents[3] / "corpus"
TIME = "2026-01-20T10:00:00Z"
USER = {"turn_type": "user", "submitted_at": TIME, "parts": [{"part_kind": "user-prompt", "content": "Hi"}]}
AGENT = {
    "turn_type": "agent",
    "agent_id": "a",
    "started_at": TIME,
    "completed_at": TIME,
    "completion_status": "complete",
    "messages": [
        {
            "message_type": "response",
            "timestamp": TIME,
            "agent_id": "a",
            "parts": [{"part_kind": "text", "content": "Ho"}],
            "model_name": "m",
        }
    ],
}
CUT = {**AGENT, "completion_status": "interrupted", "interruption": {"reason": "timeout", "interrupted_at": TIME}}
THREAD = {
    "version": "0.0.4",
    "thread_id": "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11",
    "created_at": TIME,
    "updated_at": TIME,
    "agents": {"a": {"agent_id": "a", "agent_name": "A", "created_at": TIME}},
    "turns": [USER, AGENT, CUT],
}


def run(command: click.Command, *arguments: str, given: Any = None) -> list[Any]:
    result = CliRunner().invoke(command, arguments, input=json.dumps(given), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_an_interrupted_turn_is_none_in_the_old_version() -> None:
    (old,) = run(convert, "--to-version", "0.0.3", "-", given=THREAD)
    assert old["version"] == "0.0.3"
    assert [turn["turn_type"] for turn in old["turns"]] == ["user", "agent"]
    assert "completion_status" not in old["turns"][1]
    (new,) = run(convert, "--to-version", "0.0.4", "-", given=old)
    assert new == {**THREAD, "turns": [USER, AGENT]}


def test_a_repeated_prompt_is_written_and_read_without_doubling() -> None:
    (repeated,) = run(convert, "--to-version", "0.0.4", "--repeat-user-prompt", "-", given=THREAD)
    assert repeated["turns"][1]["messages"][0]["parts"] == USER["parts"]
    (read,) = run(convert, "--to-version", "0.0.4", "-", given=repeated)
    assert read == THREAD


def test_each_turn_has_a_hash_and_with_wires_that_of_what_they_carry() -> None:
    other = {**THREAD, "turns": [USER, {**AGENT, "messages": [{**AGENT["messages"][0], "model_name": "n"}]}, CUT]}
    mine, theirs = run(hash_, "-", given=THREAD), run(hash_, "-", given=other)
    assert [row["turn_type"] for row in mine] == ["user", "agent", "agent"]
    assert mine[0] == theirs[0]
    assert mine[1]["hash"] != theirs[1]["hash"]
    assert run(hash_, "--wire", "vercel-ai", "-", given=THREAD) == run(hash_, "--wire", "vercel-ai", "-", given=other)


def test_a_history_becomes_a_thread_a_line() -> None:
    file = str(CORPUS / "pydantic-ai/2.68.0/history_two_turns__2.messages.json")
    (document,) = run(import_, "--from", "pydantic-ai", "--thread", "chat-17", "--agent", "ann", file)
    assert document["metadata"]["meta:external_id"] == "chat-17"
    assert [turn.get("agent_id", "user") for turn in document["turns"]] == ["user", "ann", "user", "ann"]


def test_lines_of_an_export_become_a_thread_each(tmp_path: Path) -> None:
    ui = [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]
    file = tmp_path / "export.jsonl"
    file.write_text("".join(json.dumps({"thread_id": name, "messages": ui}) + "\n" for name in ("chat-1", "chat-2")))
    documents = run(import_, "--from", "vercel-ai", str(file))
    assert [document["metadata"]["meta:external_id"] for document in documents] == ["chat-1", "chat-2"]
    with pytest.raises(CallerError, match="these files hold 2"):
        run(import_, "--from", "vercel-ai", "--thread", "chat-1", str(file))


@pytest.mark.parametrize(
    ("command", "arguments", "given", "message"),
    [
        (convert, ["--to-version", "0.0.3"], {"version": "9"}, "-: thread document of version '9'"),
        (convert, ["--to-version", "0.0.3"], [THREAD], "-: a JSON object is expected"),
        (hash_, [], {"version": "0.0.4"}, "-: no thread document: `turns` is missing"),
        (hash_, [], {"turns": ["x"]}, r"-: turns\[0\] can't be hashed"),
        (hash_, ["--wire", "vercel-ai"], {"turns": [{"messages": [{"parts": []}]}]}, r"-: turns\[0\] can't be hashed"),
        (
            import_,
            ["--from", "pi-agent"],
            [{"content": "hi"}],
            "-: no history of pi-agent: the history: 'role' is missing",
        ),
        (import_, ["--from", "pi-agent"], {"content": "hi"}, "-: a list of messages is expected"),
    ],
)
def test_what_does_not_fit_is_named(command: click.Command, arguments: list[str], given: Any, message: str) -> None:
    with pytest.raises(CallerError, match=message):
        run(command, *arguments, "-", given=given)


def test_a_file_that_is_no_json_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"version": ')
    with pytest.raises(CallerError, match=r"broken.json:1:13: is not JSON"):
        run(convert, "--to-version", "0.0.4", str(file))
    with pytest.raises(CallerError, match="can't be read"):
        run(hash_, str(tmp_path / "nowhere.json"))
