"""`turnmill dev --mine`: one's own sessions are stored, and what is added to them while it runs."""

from pathlib import Path

from tests.support.dev import Dev
from tests.support.sessions import Claude, Codex


def test_own_sessions_are_shown_and_followed(tmp_path: Path) -> None:
    home = tmp_path / "mine"
    claude, codex = Claude("one"), Codex("two")
    claude.ask("Heat the oven")
    claude.say("It is hot.")
    claude.write(home)
    codex.ask("t-1", "List")
    codex.say("a.txt")
    codex.write(home)
    dev = Dev(
        tmp_path / "home",
        CLAUDE_CONFIG_DIR=str(home),
        CODEX_HOME=str(home),
        GEMINI_CLI_HOME=str(home),
        COPILOT_HOME=str(home),
        XDG_DATA_HOME=str(home),
    )
    with dev.running("--mine"):
        dev.until(lambda: dev.ask("/v1/status")["store"]["turns"] == 4)
        assert "nothing leaves this machine" in dev.log.read_text()
        assert "Claude Code: 1 file, 1 new run" in dev.log.read_text()
        assert "Codex: 1 file, 1 new run" in dev.log.read_text()
        claude.ask("Bake bread")
        claude.say("Baked.")
        claude.write(home)
        dev.until(lambda: dev.ask("/v1/status")["store"]["turns"] == 6)
        names = {one["thread_id"] for one in dev.ask("/v1/threads")["threads"]}
        assert names == {claude.session, codex.session}


def test_without_any_session_it_says_so(tmp_path: Path) -> None:
    dev = Dev(
        tmp_path / "home",
        CLAUDE_CONFIG_DIR=str(tmp_path / "none"),
        CODEX_HOME=str(tmp_path / "none"),
        GEMINI_CLI_HOME=str(tmp_path),
        COPILOT_HOME=str(tmp_path),
        XDG_DATA_HOME=str(tmp_path),
    )
    with dev.running("--mine"):
        dev.until(
            lambda: (
                "there are no sessions of Claude Code, Codex, Gemini CLI, Copilot CLI, opencode" in dev.log.read_text()
            )
        )
