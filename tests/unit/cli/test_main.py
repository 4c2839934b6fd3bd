"""The command itself: an error is a line that names what is wrong, never a traceback."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline.__main__ import COMMANDS, cli, main
from turnmill.errors import CallerError


def helps(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    yield path, CliRunner().invoke(cli, [*path, "--help"], catch_exceptions=False).output
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, f"{name} is listed, and can't be loaded"
            yield from helps(below, *path, name)


def test_each_command_says_what_it_does_and_no_line_of_a_list_is_cut_off() -> None:
    seen = dict(helps(cli))
    assert len(seen) > 25
    for path, text in seen.items():
        assert text.startswith("Usage: "), path
        assert "..." not in text.partition("Commands:")[2], path


def test_the_list_says_of_each_command_what_it_says_of_itself() -> None:
    context = click.Context(cli)
    for name, entry in COMMANDS.items():
        command = cli.get_command(context, name)  # type: ignore[attr-defined]  # a group
        assert command.get_short_help_str(200) == entry.does, name


def test_a_home_that_cant_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TURNMILL_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr(sys, "argv", ["turnmill", "up"])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 2
    assert capsys.readouterr().err.startswith(f"turnmill: {tmp_path / 'file'}")


def test_the_benchmark_is_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tests.bench.command", raising=False)
    monkeypatch.setitem(sys.modules, "tests.bench", None)
    with pytest.raises(CallerError, match="call it in a checkout of Turnmill, by `make bench`"):
        CliRunner().invoke(cli, ["bench", "--only", "turns"], catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize(
    ("slip", "meant"), [("wroker", "worker"), ("thread", "threads"), ("threads lst", "list"), ("topics aply", "apply")]
)
def test_a_misspelt_command_is_told_which_is_meant(slip: str, meant: str) -> None:
    answer = CliRunner().invoke(cli, slip.split())
    assert answer.exit_code == 2
    assert f"is '{meant}' meant?" in answer.output


@pytest.mark.parametrize("command", ["mock", "rerun", "run"])
def test_marks_of_blocks_are_not_printed(command: str) -> None:
    assert "\\b" not in CliRunner().invoke(cli, [command, "--help"]).output
