"""The command: the client's part of it, and whose `pipeline` it takes for the server's."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import turnmill
from turnmill import CallerError, command_line
from turnmill.command_line import COMMANDS, client, main, server_command
from turnmill.extras import CLIENT


def test_the_server_is_found_by_its_entry_point_and_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert server_command() is not None
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pipeline", raising=False)
    with pytest.raises(CallerError, match=f"`pipeline` is {tmp_path}/pipeline, not that of turnmill-server"):
        server_command()
    monkeypatch.setattr(command_line, "entry_points", lambda **_: ())
    assert server_command() is None


def test_without_the_server_each_command_says_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "server_command", lambda: None)
    for name, command in COMMANDS.items():
        if command.extra == CLIENT:
            continue
        monkeypatch.setattr(sys, "argv", ["turnmill", name])
        with pytest.raises(SystemExit) as raised:
            main()
        assert raised.value.code == 2
        assert capsys.readouterr().err == (
            f"turnmill: `turnmill {name}` needs an extra of this package: pip install 'turnmill[{command.extra}]'\n"
        )
    with pytest.raises(CallerError, match="there is no command 'wroker': `turnmill --help` lists them"):
        client(["wroker"])


def test_the_client_lists_all_commands_and_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        client(arguments)
        listed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
        assert [line.split()[0] for line in listed] == sorted(COMMANDS)
        assert listed[sorted(COMMANDS).index("run")].endswith(COMMANDS["run"].does)
    client(["--version"])
    assert capsys.readouterr().out == f"turnmill, version {version('turnmill')}, client\n"
    assert turnmill.__version__ == version("turnmill")


def test_run_says_of_which_programs_nothing_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    started = list[list[str]]()
    monkeypatch.setattr(command_line.os, "execve", lambda _, command, __: started.append(command))
    for name in ("node", "python-of-mine"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    client(["run", "--", "python-of-mine", "agent.py"])
    assert capsys.readouterr().err == ""
    client(["run", "--", "node", "agent.mjs"])
    assert "what node says to models is not seen" in capsys.readouterr().err
    assert started == [["python-of-mine", "agent.py"], ["node", "agent.mjs"]]


def test_run_needs_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["run"], ["run", "--"], ["run", "--help"]):
        client(arguments)
        assert capsys.readouterr().out.startswith("Usage: turnmill run [--] COMMAND")
    with pytest.raises(CallerError, match="there is no program 'no-such-program'"):
        client(["run", "--", "no-such-program"])
