"""The database in which opencode keeps sessions on this disk, and the files in which earlier versions did.

A message and its parts are written again in place while they grow. So of each session, those are read that nobody
writes any more, in their order, up to the first that may still change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pipeline.cli.histories.session_lines import Lines, object_in_line
from topics.json_text import Fields

FACTS: Final = ("id", "parent_id", "directory", "title", "version", "time_updated")
SESSIONS: Final = f"SELECT {', '.join(FACTS)} FROM session WHERE time_updated > ? ORDER BY time_created, id"  # noqa: S608  # our own names
MESSAGES: Final = """SELECT id, data, time_created FROM message
    WHERE session_id = ? AND (time_created, id) > (?, ?) ORDER BY time_created, id"""
PARTS: Final = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
NEWER: Final = "session_v2"  # the table, and the folder, of opencode 2
DAY: Final = 86_400_000  # ms: a session that was not touched so long before the newest one is not looked at again
ANSWERED: Final = ("completed", "error")
ABOVE: Final = 2  # folders, from that of a session's file to the one that has those of messages and parts
Place = tuple[int, str]


@dataclass(slots=True)
class Seen:
    """The part of a session that was read: up to its message at `place`, and `parts` of the next message."""

    place: Place = (0, "")
    parts: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A message as it is kept; `info` is None where it can't be read."""

    place: Place
    info: Fields | None

    @property
    def answers(self) -> bool:
        """Return True for a message of the assistant."""
        return self.info is not None and self.info.get("role") == "assistant"

    @property
    def done(self) -> bool:
        """Return True if opencode writes the message no more.

        A prompt may still get its parts; so may the answer that a command of the user's own has, which no model gave.
        """
        if self.info is None:
            return True
        time, tokens = self.info.get("time"), self.info.get("tokens")
        over = self.answers and isinstance(time, dict) and bool(time.get("completed"))
        counted = isinstance(tokens, dict) and bool(tokens.get("output"))
        return over and (counted or any(self.info.get(key) for key in ("finish", "error")))


class Sessions(Lines):
    """All sessions of a database, or that of a file: `read` goes on where it stopped in each of them.

    A line is a prompt with its `parts`, one `part` of an answer, or the end of an answer.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._seen: dict[str, Seen] = {}
        self._newest = 0
        self._id = ""

    @property
    def here(self) -> int | str:
        """The id of the message or the part that was read last."""
        return self._id

    @staticmethod
    def extent(path: Path) -> int:
        """Return the time of the last change, in ns: SQLite writes what is new beside the database."""
        files = (path, path.with_name(f"{path.name}-wal"))
        return max(file.stat().st_mtime_ns for file in files if file.exists())

    def read(self) -> Iterator[tuple[Fields, int]]:
        """Yield (line, bytes)."""
        with opened(self.path, self._object) as kept:
            newer = kept.newer() if isinstance(kept, Database) else 0
            for session in kept.sessions(self._newest - DAY):
                self._newest = max(self._newest, session["time_updated"])
                try:
                    for line, size in self._session(kept, session):
                        self._id = (line.get("part") or line["message"])["id"]
                        yield {"session": session, **line}, size
                except sqlite3.Error:  # pages of it are damaged
                    self.broken.append(session["id"])
            if newer:
                raise OSError(0, f"{newer:,} sessions in the form of opencode 2, which is not read")

    def _session(self, kept: Database | Folder, session: Fields) -> Iterator[tuple[Fields, int]]:
        again = session["id"] in self._seen
        seen = self._seen.setdefault(session["id"], Seen())
        earlier = frozenset(kept.ids(session["id"])) if again else None  # without those that were taken back
        for row, whole in settled(kept.messages(session["id"], seen.place)):
            parts = kept.parts(row.place[1]) if row.info is not None else iter(())
            if row.info is not None and not row.answers:
                sized = list(parts)
                present = [part for part, _ in sized if part is not None]
                yield {"message": row.info, "parts": present, "earlier": earlier}, sum(size for _, size in sized)
            else:
                final = parts if whole else takewhile(lambda sized: sized[0] is None or is_final(sized[0]), parts)
                for number, (part, size) in enumerate(final, 1):
                    if number > seen.parts:
                        seen.parts = number
                        if part is not None:
                            yield {"message": row.info, "part": part}, size
                if whole and row.info is not None:
                    yield {"message": row.info}, 0
            if whole:
                seen.place, seen.parts = row.place, 0

    def _object(self, name: str, data: bytes) -> Fields | None:
        """Return the object of a row or a file with its id; None, and a note of it, where it is none."""
        value = object_in_line(data)
        if value is not None:
            return {**value, "id": name}
        if name not in self.broken:
            self.broken.append(name)
        return None


def settled(rows: Iterable[Row]) -> Iterator[tuple[Row, bool]]:
    """Yield (message, True) for each finished message, and (answer, False) for an answer that opencode still writes.

    Behind an answer, whatever was before it is over, even if its program was killed.
    """
    waiting: list[Row] = []
    for row in rows:
        if row.answers:
            yield from ((message, True) for message in waiting)
            waiting = []
        if row.done and not waiting:
            yield row, True
        else:
            waiting.append(row)
    if waiting and waiting[0].answers:
        yield waiting[0], False


def is_final(part: Fields) -> bool:
    """Return True if a part of an answer is not written again."""
    kind, state, time = part.get("type"), part.get("state"), part.get("time")
    if kind == "tool":
        return isinstance(state, dict) and state.get("status") in ANSWERED
    return kind not in ("text", "reasoning") or (isinstance(time, dict) and bool(time.get("end")))


Objects = Callable[[str, bytes], Fields | None]
Parts = Iterator[tuple[Fields | None, int]]  # with their bytes


@dataclass(frozen=True, slots=True)
class Database:
    """The database, opened read-only: reading it does not delay its writers."""

    rows: sqlite3.Connection
    objects: Objects

    def newer(self) -> int:
        """Return the number of sessions of opencode 2, which has a table of its own for them."""
        if not self._has(NEWER):
            return 0
        (count,) = self.rows.execute("SELECT count(*) FROM session_v2").fetchone()
        return int(count)

    def _has(self, table: str) -> bool:
        return self.rows.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None

    def sessions(self, since: int) -> Iterator[Fields]:
        """Yield the sessions that were touched since, a session before those that were spawned or forked from it."""
        if not self._has("session") and self._has(NEWER):
            return
        for row in self.rows.execute(SESSIONS, (since,)).fetchall():
            values = [fact.decode("utf-8", "replace") if isinstance(fact, bytes) else fact for fact in row]
            yield dict(zip(FACTS, values, strict=True))

    def ids(self, session: str) -> Iterator[str]:
        """Yield the ids of a session's messages."""
        for (name,) in self.rows.execute("SELECT id FROM message WHERE session_id = ?", (session,)):
            yield name.decode()

    def messages(self, session: str, after: Place) -> Iterator[Row]:
        """Yield the messages of a session from a place on."""
        for name, data, at in self.rows.execute(MESSAGES, (session, *after)):
            yield Row((at, name.decode()), self.objects(name.decode(), data))

    def parts(self, message: str) -> Parts:
        """Yield the parts of a message."""
        for name, data in self.rows.execute(PARTS, (message,)):
            yield self.objects(name.decode(), data), len(data)


@dataclass(frozen=True, slots=True)
class Folder:
    """A session in files of earlier versions: session/PROJECT/ID.json, message/ID/*.json, part/MESSAGE/*.json."""

    session: Path
    objects: Objects

    def sessions(self, since: int) -> Iterator[Fields]:
        """Yield the session, its facts named as in the database."""
        info = self.objects(self.session.stem, self.session.read_bytes())
        if info is not None:
            yield {**info, "parent_id": info.get("parentID"), "time_updated": 0}

    def ids(self, session: str) -> Iterator[str]:
        """Yield the ids of the session's messages."""
        return (file.stem for file in self._files("message", session))

    def messages(self, session: str, after: Place) -> Iterator[Row]:
        """Yield the messages of the session from a place on."""
        rows = [self._row(file) for file in self._files("message", session)]
        return iter(sorted((row for row in rows if row.place > after), key=lambda row: row.place))

    def parts(self, message: str) -> Parts:
        """Yield the parts of a message."""
        for file in self._files("part", message):
            data = file.read_bytes()
            yield self.objects(file.stem, data), len(data)

    def _files(self, kind: str, name: str) -> list[Path]:
        return sorted((self.session.parents[ABOVE] / kind / name).glob("*.json"))

    def _row(self, file: Path) -> Row:
        info = self.objects(file.stem, file.read_bytes())
        time = (info or {}).get("time")
        created = time.get("created") if isinstance(time, dict) else None
        return Row((created if isinstance(created, int) else 0, file.stem), info)


@contextmanager
def opened(path: Path, objects: Objects) -> Iterator[Database | Folder]:
    """Open what opencode keeps here. Raises OSError if that is neither such a database nor such a file."""
    if NEWER in path.parts:
        raise OSError(0, "a session in the form of opencode 2, which is not read")
    if path.suffix != ".db":
        if len(path.parents) <= ABOVE or not (path.parents[ABOVE] / "message").is_dir():
            raise OSError(0, "no session of opencode: name opencode.db, or a file session/PROJECT/ses_….json")
        yield Folder(path, objects)
        return
    # Without a log beside it, no process writes to it. `immutable` keeps SQLite from creating the files of the log.
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True)) as rows:
            rows.text_factory = bytes  # what is no UTF-8 breaks its own row alone
            yield Database(rows, objects)
    except sqlite3.Error as error:
        raise OSError(0, str(error)) from error
