"""The files in which coding agents keep sessions on this disk, and who reads them."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pipeline.cli.histories.opencode_files import Sessions
from pipeline.cli.histories.session_lines import Lines, Whole, Zipped, object_in_line, unzipped
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
FORK: Final = re.compile(rb'"forkedFrom": ?\{[^}]*"sessionId": ?"([^"]+)"')  # the session that was forked
UUID_CHARACTERS: Final = 36
ZIPPED: Final = ".zst"  # behind the name of a file that Codex compressed
EVENTS: Final = "events.jsonl"  # in a folder with the session's id
# In YAML; of a longer name its first line.
NAMED: Final = re.compile(r"^name: *(?:[|>][-+]?\n +)?(.+?) *$", re.MULTILINE)


KINDS: Final[dict[str, type[Lines]]] = {".json": Whole, ZIPPED: Zipped}


@dataclass(frozen=True, slots=True)
class Source:
    """A program that keeps sessions: where by default, in which files, and how a session is read."""

    title: str
    folder: Callable[[], Path]
    patterns: tuple[str, ...]
    reader: Callable[[Path, Homes], Reader]
    kind: Callable[[Path], type[Lines]] = lambda path: KINDS.get(path.suffix, Lines)


def files_of(source: Source, paths: Sequence[Path]) -> list[Path]:
    """Return the files of sessions below these paths, or below the usual path, in the order in which they are read.

    Raises CallerError where a path doesn't exist, or none is given and the usual path doesn't.
    """
    for path in paths or [source.folder()]:
        if not path.exists():
            raise CallerError(f"{path} does not exist: name the folder with the sessions of {source.title}")
    return in_order(paths_of(source, paths))


def paths_of(source: Source, paths: Sequence[Path]) -> set[Path]:
    """Return the same in no order."""
    files: set[Path] = set()
    for path in paths or [source.folder()]:
        below = (file for pattern in source.patterns for file in path.rglob(pattern) if file.is_file())
        files |= {file.absolute() for file in ([path] if path.is_file() else below)}
    return {file for file in files if file.suffix != ZIPPED or file.with_suffix("") not in files}


def in_order(files: Iterable[Path]) -> list[Path]:
    """Return the files by age; forks come after all that they may be copies of."""
    facts = {file: _head(file) for file in files}
    sources = {name_of(file): source for file, (_, source, _) in facts.items() if source}

    def order(file: Path) -> tuple[int, bytes, str]:
        forks, source, began = facts[file]
        while source in sources and forks <= len(sources):  # a fork of a fork comes after that
            forks, source = forks + 1, sources[source]
        return forks, began, str(file)

    return sorted(facts, key=order)


def _head(file: Path) -> tuple[int, str, bytes]:
    """Return whether a session is a fork, the session that was forked, and when it began."""
    try:
        with unzipped(file) if file.suffix == ZIPPED else file.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
    except OSError:  # who reads it says so
        head = b""
    began, source = TIME.search(head), FORK.search(head)
    return b'"forkedFrom"' in head, source[1].decode(errors="replace") if source else "", began[1] if began else b""


def name_of(file: Path) -> str:
    """Return the session whose file it is, as programs name it."""
    stem = Path(file.name.removesuffix(ZIPPED)).stem
    return (file.parent.name if file.name == EVENTS else stem)[-UUID_CHARACTERS:]


def _below(variable: str, default: str, rest: str) -> Callable[[], Path]:
    """Return a function that returns the folder `rest` below that of a variable, else below `default` in the home."""
    return lambda: Path(os.environ.get(variable) or Path.home() / default) / rest


def _session(path: Path, homes: Homes) -> Reader:
    """Return the reader of a session, or of the file that a sub-agent has beside it."""
    if not path.name.startswith(AGENT):
        return Session(str(path), name_of(path), homes)
    sidecar = path.with_suffix(".meta.json")
    kind = (object_in_line(sidecar.read_bytes()) or {}).get("agentType") if sidecar.exists() else None
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
    """Return the names that sessions of Codex were given; the last name counts."""
    lines = [line for line, _ in Lines(index).read()] if index.exists() else []
    return {str(line.get("id")): line["thread_name"] for line in lines if isinstance(line.get("thread_name"), str)}


SOURCES: Final = {
    "claude-code": Source("Claude Code", _below("CLAUDE_CONFIG_DIR", ".claude", "projects"), ("*.jsonl",), _session),
    "codex": Source(
        "Codex", _below("CODEX_HOME", ".codex", "sessions"), ("rollout-*.jsonl", "rollout-*.jsonl.zst"), _rollout
    ),
    "gemini-cli": Source(
        "Gemini CLI", _below("GEMINI_CLI_HOME", "", ".gemini/tmp"), ("chats/**/*.jsonl", "chats/session-*.json"), _chat
    ),
    "copilot-cli": Source(
        "Copilot CLI", _below("COPILOT_HOME", ".copilot", "session-state"), (EVENTS, "*-*-*-*-*.jsonl"), _events
    ),
    "opencode": Source(
        "opencode",
        _below("XDG_DATA_HOME", ".local/share", "opencode"),
        ("opencode*.db", "session/*/ses_*.json", "session_v2/**/*.json"),
        lambda path, homes: Conversations(str(path), homes),
        lambda _: Sessions,
    ),
}
