"""The files in which coding agents keep sessions on this disk, and who reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pipeline.cli.histories.opencode_files import Sessions
from pipeline.cli.histories.session_lines import Lines, Whole, object_of
from pipeline.dialects.anthropic.copilot_session import Copilot
from pipeline.dialects.claude_code.transcript import Session
from pipeline.dialects.gemini.session import Chat
from pipeline.dialects.openai_responses.rollout import Rollout
from pipeline.dialects.transcript import Homes, Reader
from pipeline.dialects.vercel_ai.opencode import Conversations
from turnmill.errors import CallerError

AGENT: Final = "agent-"  # how names of sub-agents' files begin
HEAD_BYTES: Final = 16_384  # in which a session says when it began, and whether it is a fork
TIME: Final = re.compile(rb'"timestamp": ?"([^"]+)"')
UUID_CHARACTERS: Final = 36
EVENTS: Final = "events.jsonl"  # in a folder with the session's id
NAMED: Final = re.compile(
    r"^name: *(?:[|>][-+]?\n +)?(.+?) *$", re.MULTILINE
)  # in YAML; of a longer one its first line


@dataclass(frozen=True, slots=True)
class Source:
    """A program that keeps sessions: where by default, in which files, and how one of them is read."""

    title: str
    place: Callable[[], Path]
    patterns: tuple[str, ...]
    reader: Callable[[Path, Homes], Reader]
    kind: Callable[[Path], type[Lines]] = lambda path: Whole if path.suffix == ".json" else Lines


def files_of(source: Source, paths: Sequence[Path]) -> list[Path]:
    """Return the files of sessions below these paths, or below the usual one, in the order in which they are read.

    Raises CallerError where a path doesn't exist, or none is given and the usual one doesn't.
    """
    for path in paths or [source.place()]:
        if not path.exists():
            raise CallerError(f"{path} does not exist: name the folder with the sessions of {source.title}")
    return in_order(paths_of(source, paths))


def paths_of(source: Source, paths: Sequence[Path]) -> set[Path]:
    """Return the same in no order."""
    found: set[Path] = set()
    for path in paths or [source.place()]:
        below = (file for pattern in source.patterns for file in path.rglob(pattern))
        found |= {file.absolute() for file in ([path] if path.is_file() else below)}
    return found


def in_order(files: Iterable[Path]) -> list[Path]:
    """Return the files by age; forks come after all that they may be copies of."""
    return sorted(files, key=_order)


def _order(file: Path) -> tuple[bool, bytes, str]:
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
    except OSError:  # who reads it says so
        head = b""
    began = TIME.search(head)
    return b'"forkedFrom"' in head, began[1] if began else b"", str(file)


def name_of(file: Path) -> str:
    """Return the session whose file it is, as programs name it."""
    return (file.parent.name if file.name == EVENTS else file.stem)[-UUID_CHARACTERS:]


def _claude_code() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"


def _codex() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "sessions"


def _gemini() -> Path:
    return Path(os.environ.get("GEMINI_CLI_HOME") or Path.home()) / ".gemini" / "tmp"


def _copilot() -> Path:
    return Path(os.environ.get("COPILOT_HOME") or Path.home() / ".copilot") / "session-state"


def _opencode() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "opencode"


def _session(path: Path, homes: Homes) -> Reader:
    """Return the reader of a session, or of the file that a sub-agent has beside it."""
    if not path.name.startswith(AGENT):
        return Session(str(path), name_of(path), homes)
    sidecar = path.with_suffix(".meta.json")
    kind = (object_of(sidecar.read_bytes()) or {}).get("agentType") if sidecar.exists() else None
    session = next((line.get("sessionId") for line, _ in Lines(path).read()), None)
    return Session(str(path), str(session), homes, path.stem.removeprefix(AGENT), str(kind or "agent"))


def _rollout(path: Path, homes: Homes) -> Reader:
    home = next((folder.parent for folder in path.parents if folder.name in ("sessions", "archived_sessions")), None)
    return Rollout(str(path), name_of(path), homes, None if home is None else _titles(home / "session_index.jsonl"))


def _chat(path: Path, homes: Homes) -> Reader:
    """Return the reader of a session; files of sub-agents are in a folder with their session's id."""
    return Chat(str(path), name_of(path), homes, None if path.parent.name == "chats" else path.parent.name)


def _events(path: Path, homes: Homes) -> Reader:
    """Return the reader of a session; the name that it was given is beside it."""
    facts = path.with_name("workspace.yaml")
    named = NAMED.search(facts.read_text("utf-8", "replace")) if path.name == EVENTS and facts.exists() else None
    title = named and (named[1][1:-1].replace("''", "'") if named[1][0] == named[1][-1] == "'" else named[1])
    return Copilot(str(path), name_of(path), homes, title)


@cache
def _titles(index: Path) -> dict[str, str]:
    """Return the names that sessions of Codex were given; the last one counts."""
    lines = [line for line, _ in Lines(index).read()] if index.exists() else []
    return {str(line.get("id")): line["thread_name"] for line in lines if isinstance(line.get("thread_name"), str)}


SOURCES: Final = {
    "claude-code": Source("Claude Code", _claude_code, ("*.jsonl",), _session),
    "codex": Source("Codex", _codex, ("rollout-*.jsonl",), _rollout),
    "gemini-cli": Source("Gemini CLI", _gemini, ("chats/**/*.jsonl", "chats/session-*.json"), _chat),
    "copilot-cli": Source("Copilot CLI", _copilot, (EVENTS, "*-*-*-*-*.jsonl"), _events),
    "opencode": Source(
        "opencode",
        _opencode,
        ("opencode*.db", "session/*/ses_*.json"),
        lambda path, homes: Conversations(str(path), homes),
        lambda _: Sessions,
    ),
}
