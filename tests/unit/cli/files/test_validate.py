"""`turnmill validate` and `turnmill schema`: output, places, exit status."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipeline.cli.files.documents import schema, validate

TIME = "2026-01-20T10:00:00Z"
THREAD = {
    "version": "0.0.4",
    "thread_id": "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11",
    "created_at": TIME,
    "updated_at": TIME,
    "agents": {},
    "turns": [{"turn_type": "user", "submitted_at": TIME, "parts": []}],
}
BROKEN = THREAD | {"turns": [{"turn_type": "user", "submitted_at": "now", "parts": []}]}


def run(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(validate, arguments, input=stdin)


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_a_valid_document(tmp_path: Path) -> None:
    result = run(write(tmp_path, "t.json", json.dumps(THREAD, indent=1)))
    assert (result.exit_code, result.stdout) == (0, "1 document, 1 valid, 0 errors, 0 warnings\n")


def test_findings_say_where_and_the_status_is_1(tmp_path: Path) -> None:
    result = run(write(tmp_path, "t.json", json.dumps(BROKEN)))
    assert result.exit_code == 1
    assert "t.json: turns[0].submitted_at: error (rule 1): " in result.stdout
    assert result.stdout.endswith("1 document, 0 valid, 1 error, 0 warnings\n")


def test_warnings_alone_are_no_failure(tmp_path: Path) -> None:
    result = run(write(tmp_path, "t.json", json.dumps(THREAD | {"updated_at": "2026-01-20T10:00:00"})))
    assert result.exit_code == 0
    assert "updated_at: warning (rule 1)" in result.stdout


def test_json_lines_from_standard_input() -> None:
    lines = "\n".join(json.dumps(document) for document in (THREAD, BROKEN)) + "\n\n"
    result = run("-", "--json", stdin=lines.encode())
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert [(row["source"], row["line"], row["valid"]) for row in rows] == [("-", 1, True), ("-", 2, False)]
    assert rows[1]["findings"][0] | {"message": ""} == {
        "rule": 1,
        "severity": "error",
        "path": "turns[0].submitted_at",
        "message": "",
    }


@pytest.mark.parametrize(
    ("content", "line", "column", "words"),
    [
        ('{\n "version": oops}', 2, 13, "not JSON"),
        (b'{"title": "\xff"}', 1, 12, "not UTF-8"),
        ("[1]\n[2,]\n", 2, 4, "not JSON"),
        ('{"a": NaN}', None, None, "NaN is no JSON number"),
        ("[" * 100_000, None, None, "nested too deeply"),
        ("1" * 5_000, None, None, "not JSON"),
        (" \n", None, None, "empty"),
    ],
)
def test_what_is_no_json_is_status_2_with_its_place(
    tmp_path: Path, content: str | bytes, line: int | None, column: int | None, words: str
) -> None:
    path = write(tmp_path, "t.json", content)
    result = run(path, "--json")
    row = json.loads(result.stdout.splitlines()[-1])
    assert result.exit_code == 2
    assert (row["line"], row["column"], row["valid"]) == (line, column, False)
    assert words in row["error"]
    place = f"{path}:{line}:{column}: " if line else f"{path}: "
    assert place in run(path).stderr


def test_a_missing_file_does_not_hide_the_others(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none.json"), write(tmp_path, "t.json", json.dumps(BROKEN)))
    assert result.exit_code == 2
    assert "none.json: can't be read: No such file or directory" in result.stderr
    assert "turns[0].submitted_at" in result.stdout


def test_lone_surrogates_in_a_document_can_be_shown(tmp_path: Path) -> None:
    result = run(write(tmp_path, "t.json", json.dumps(THREAD | {"thread_id": "\ud800"})))
    assert result.exit_code == 1
    assert '"\\ud800" is no UUID' in result.stdout


def test_schema_is_json() -> None:
    printed: dict[str, Any] = json.loads(CliRunner().invoke(schema).stdout)
    assert printed["$id"] == "urn:threadprotocol:thread:0.0.4"
    assert printed["properties"]["version"]["const"] == "0.0.4"
