"""The files in which coding agents keep sessions on this disk, and their lines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from pipeline.dialects.anthropic.copilot_session import Copilot
from pipeline.dialects.claude_code.transcript import Session
from pipeline.dialects.gemini.session import Chat
from pipeline.dialects.openai_responses.rollout import Rollout
from pipeline.dialects.transcript import Homes, Reader
from pipeline.dialects.vercel_ai.opencode import Sessions as Conversations
from turnmill.envelope import loads
from turnmill.errors import CallerError, InvalidRecord
from turnmill.limits import EVENT_BYTES

AGENT: Final = "agent-"  # how names of sub-agents' files begin
HEAD: Final = 16_384  # bytes in which a session says when it began, and whether it is a fork
TIME: Final = re.compile(rb'"timestamp": ?"([^"]+)"')
PORTION: Final = 1 << 20  # bytes that are read at a time
UUID: Final = 36  # characters
EVENTS: Final = "events.jsonl"  # in a folder with the session's id
NAMED: Final = re.compile(
    r"^name: *(?:[|>][-+]?\n +)?(.+?) *$", re.MULTILINE
)  # in YAML; of a longer one its first line
SESSION_BYTES: Final = 256 << 20  # of a file that is read as a whole

Fields = dict[str, Any]


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
    for place in paths or [source.place()]:
        if not place.exists():
            raise CallerError(f"{place} does not exist: name the folder with the sessions of {source.title}")
    return in_order(paths_of(source, paths))


def paths_of(source: Source, paths: Sequence[Path]) -> set[Path]:
    """Return the same in no order."""
    found: set[Path] = set()
    for place in paths or [source.place()]:
        below = (file for pattern in source.patterns for file in place.rglob(pattern))
        found |= {file.absolute() for file in ([place] if place.is_file() else below)}
    return found


def in_order(files: Iterable[Path]) -> list[Path]:
    """Return the files by age; forks come after all that they may be copies of."""
    return sorted(files, key=_order)


def _order(file: Path) -> tuple[bool, bytes, str]:
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD)
    except OSError:  # who reads it says so
        head = b""
    began = TIME.search(head)
    return b'"forkedFrom"' in head, began[1] if began else b"", str(file)


def name_of(file: Path) -> str:
    """Return the session whose file it is, as programs name it."""
    return (file.parent.name if file.name == EVENTS else file.stem)[-UUID:]


class Lines:
    """The lines of a file that grows: `read` goes on where it stopped.

    `broken`: the numbers of those that are no JSON object, or their ids.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0  # bytes of whole lines that were read
        self.broken: list[int | str] = []
        self.number = 0  # of the last line

    @staticmethod
    def extent(path: Path) -> int:
        """Return a number that grows with the file."""
        return path.stat().st_size

    def read(self) -> Iterator[tuple[Fields, int]]:
        """Yield (object, bytes) of each new line. A last line that isn't whole yet is left for the next time."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while line := file.readline(EVENT_BYTES):
                size = len(line)
                while line[-1:] != b"\n" and (more := file.readline(PORTION)):  # too long: the rest is not held
                    size, line = size + len(more), more[-1:]
                value = _object(line)
                if value is None and line[-1:] != b"\n":
                    return
                self.offset += size
                self.number += 1
                if value is not None:
                    yield value, size
                elif line.strip():
                    self.broken.append(self.number)

    @property
    def here(self) -> int | str:
        """The place of the last line: its number, or its id."""
        return self.number

    @property
    def rest(self) -> int:
        """Bytes that were not read: of a line that is not whole."""
        return self.path.stat().st_size - self.offset


class Whole(Lines):
    """A session in one JSON object, whose messages are the lines; it is read as a whole whenever it has changed.

    One that goes on as lines in a file beside it has none.
    """

    def read(self) -> Iterator[tuple[Fields, int]]:
        """Yield (object, bytes) of its facts, and of all its messages."""
        size, before = self.path.stat().st_size, self.offset
        if size == before or self.path.with_suffix(".jsonl").exists():
            return
        value = _object(self.path.read_bytes()) if size <= SESSION_BYTES else None
        if value is None:  # it is being written, or can't be read
            self.broken, self.number = [1], 1
            return
        self.offset, self.broken = size, []
        messages = value.pop("messages", None)
        yield value, size - before
        for self.number, message in enumerate(messages if isinstance(messages, list) else (), 1):
            if isinstance(message, dict):
                yield message, 0


def _object(line: bytes) -> Fields | None:
    try:
        value = loads(line)
    except (InvalidRecord, RecursionError):
        return None
    return value if isinstance(value, dict) else None


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
    kind = (_object(sidecar.read_bytes()) or {}).get("agentType") if sidecar.exists() else None
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


def _kept(path: Path) -> type[Lines]:
    from pipeline.cli.opencode_files import Sessions  # noqa: PLC0415  # they are lines, too

    return Sessions


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
        _kept,
    ),
}
