"""The command: the client's part of it, and whose `pipeline` it takes for the server's."""

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import turnmill
from turnmill import CallerError, command_line
from turnmill.command_line import COMMANDS, client, main, server_command
from turnmill.extras import CLIENT, install


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
            f"turnmill: `turnmill {name}` needs an extra of this package: {install(command.extra)}\n"
        )
    with pytest.raises(CallerError, match=r"there is no command 'wroker': is 'worker' meant\?"):
        client(["wroker"])
    with pytest.raises(CallerError, match="there is no command 'coffee': `turnmill --help` lists them"):
        client(["coffee"])


def test_the_client_lists_all_commands_and_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        client(arguments)
        listed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
        assert [line.split()[0] for line in listed] == sorted(COMMANDS)
        assert listed[sorted(COMMANDS).index("run")].endswith(COMMANDS["run"].does)
    client(["--version"])
    assert capsys.readouterr().out == f"turnmill, version {version('turnmill')}, client\n"
    assert turnmill.__version__ == version("turnmill")


@pytest.mark.parametrize("server", [True, False])
def test_run_takes_the_proxy_for_what_is_no_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, *, server: bool
) -> None:
    started = list[tuple[str, list[str]]]()

    class Ended(Exception):
        """A program that was started."""

    def starts(how: str) -> Callable[..., None]:
        def start(_: str, command: list[str], *more: object, tees: bool = False) -> None:
            started.append(("teed" if tees else how, command))
            raise Ended

        return start

    class Entry:
        def load(self) -> Callable[..., None]:
            return starts("supervised")

    monkeypatch.setattr(command_line.os, "execve", starts("replaced"))
    monkeypatch.setattr(command_line, "server_command", lambda: Entry() if server else None)
    monkeypatch.setattr(command_line, "entry_points", lambda **_: (Entry(),))
    contents = {"node": "", "python-of-mine": "", "tool": "#!/usr/bin/env python3\n", "uv": "", "script": "#!/bin/sh\n"}
    contents["long"] = "#!/bin/sh\n'''exec' /a/long/path/bin/python \"$0\" \"$@\"\n"
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    proxied = "supervised" if server else "replaced"
    for arguments, how in (
        (["python-of-mine", "agent.py"], "replaced"),
        (["tool"], "replaced"),
        (["uv", "run", "agent.py"], "replaced"),
        (["long"], "replaced"),
        (["node", "agent.mjs"], proxied),
        (["script"], proxied),
        (["--proxy", "--", "tool"], proxied),
        *((["--tee-stdout", "--", "tool"], "teed") for _ in range(server)),
    ):
        started.clear()
        capsys.readouterr()
        with pytest.raises(Ended):
            client(["run", *(arguments if arguments[0].startswith("--") else ["--", *arguments])])
        assert started == [(how, [one for one in arguments if not one.startswith("--")])]
        unseen = not server and how == proxied and arguments[0] in ("node", "script", "--proxy")
        assert ("says to models is not seen" in capsys.readouterr().err) == unseen


def test_run_needs_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["run"], ["run", "--"], ["run", "--help"], ["run", "--proxy"], ["run", "--tee-stdout"]):
        client(arguments)
        assert capsys.readouterr().out.startswith("Usage: turnmill run [--proxy | --tee-stdout] [--] COMMAND")
    with pytest.raises(CallerError, match="there is no program 'no-such-program'"):
        client(["run", "--", "no-such-program"])
