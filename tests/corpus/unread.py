"""Finds the fields of recorded events that nobody reads: whatever happens to them, the answer stays the same.

A path is KIND:FIELD.FIELD[].FIELD: the event's type, then the way to the field. A field is read if a recording exists
whose turns, dead letters or telemetry differ when all its values at this path are others, or when it has none.
"""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import orjson

from pipeline.assembly.offline import close
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.cli.files.assemble import RUN_INFO
from pipeline.dialects import DIALECTS
from turnmill.wire.framing import decode

TRIED: Final = 6  # recordings of each path; those with the most different values there
PROBE: Final = "turnmill-probe"
TRIED_AGAIN: Final = 2
UNLIKE, GONE = object(), object()  # other values: one of the same type if it is a number, none
KINDS: Final = {
    "claude-code": ("type", "subtype", "event.type", "event.delta.type"),
    "langgraph": (
        "event",
        "type",
        "method",
        "data.method",
        "data.event",
        "params.data.event",
        "data.params.data.event",
    ),
    "openai-agents": ("type", "name", "data.type"),
    "openai-agents-js": ("type", "data.type"),
    "pi-agent": ("type", "assistantMessageEvent.type", "message.role"),
}
Way = tuple[str, ...]  # the event's kind, then the names of fields; of lists with brackets
THREAD: Final = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


class Stream:
    """A recording: its events, what is made of them, and the values at each of their paths."""

    def __init__(self, dialect: str, path: Path) -> None:
        self.dialect, self.path = DIALECTS[dialect], path
        events = [item.event for item in decode(path.read_bytes(), self.dialect.wire) if item.event is not None]
        self.kinds = [kind(dialect, event) for event in events]
        self._events = pickle.dumps(events)
        self._answers = dict[int, Any]()
        beside = path.with_name(f"{path.name.removesuffix(path.suffix)}.run.json")
        info = orjson.loads(beside.read_bytes()) if beside.exists() else {}
        self.said = {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "seq": 0, "ts": 1_768_928_342_002}
        self.said |= {"dialect": dialect, "run": {key: info[key] for key in RUN_INFO if info.get(key) is not None}}
        self.end = {"end": info["end"]} if info.get("end") else {}

    def events(self) -> list[Any]:
        return pickle.loads(self._events)

    def answer(self, events: list[Any]) -> Any:
        """Return all that comes of these events; as they were sent, or broken off."""
        end = self.end if len(events) == len(self.kinds) else {}
        envelope = self.said | {"events": events, "dt": list(range(len(events)))} | end
        record = StoredRecord(b"", 0, envelope["ts"])
        run = Run(envelope, self.dialect, record)
        run.feed(envelope, record)
        turns, builder = close(run, run.verdict(), keep_telemetry=True, keep_requests=True, last=True)
        return turns, builder.telemetry, [repr(refused) for refused in run.refusals]

    def before(self, count: int) -> Any:
        """Return the answer to the first events as they are."""
        if count not in self._answers:
            self._answers[count] = self.answer(self.events()[:count])
        return self._answers[count]

    def paths(self) -> dict[Way, dict[str, Any]]:
        """Return each path with its values, by their text."""
        found: dict[Way, dict[str, Any]] = defaultdict(dict)
        for of, event in self._pairs():
            for path, value in walked(event, (of,)):
                found[path][repr(value)[:200]] = value
        return found

    def reads(self, path: Way, others: Iterable[Any]) -> bool:
        """Return True if the answer is another one when the values at this path are others, or gone.

        In the whole stream; and in one that breaks off behind the last of them, or short of its end.
        """
        having = [number for number, (of, event) in enumerate(self._pairs()) if of == path[0] and change(event, path)]
        cuts = dict.fromkeys((len(self.kinds), having[-1] + 1, max(len(self.kinds) - 2, having[-1] + 1)))
        for other, cut in product((UNLIKE, GONE, *others), cuts):
            events = self.events()[:cut]
            for number in having if cut != having[-1] + 1 else having[-1:]:
                change(events[number], path, other)
            if self.answer(events) != self.before(cut):
                return True
        return False

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        return zip(self.kinds, self.events(), strict=True)


def kind(dialect: str, event: Any) -> str:
    """Return what tells events apart: the types that stand in it, one below the other."""
    names = [of(event, way) for way in KINDS.get(dialect, (DIALECTS[dialect].wire.kind,))]
    return "/".join(name for name in names if isinstance(name, str))


def of(event: Any, way: str) -> Any:
    for step in way.split("."):
        event = event.get(step) if isinstance(event, dict) else None
    return event


def walked(mapping: Any, above: Way) -> Iterator[tuple[Way, Any]]:
    """Return each field of a mapping and of those below it; lists on the way to them are brackets behind its name."""
    for name, value in mapping.items() if isinstance(mapping, dict) else ():
        yield (*above, name), value
        lists, inner = "", [value]
        while inner:
            for one in inner:
                yield from walked(one, (*above, f"{name}{lists}"))
            lists, inner = f"{lists}[]", [one for some in inner if isinstance(some, list) for one in some]


def change(value: Any, path: Way, other: Any = UNLIKE) -> bool:
    """Put another value at the end of a path; -> whether there was one."""
    name, below = path[1].rstrip("[]"), path[1:]
    if not isinstance(value, dict) or name not in value:
        return False
    if len(below) == 1:
        put(value, name, other)
        return True
    inner = [value[name]]
    for _ in range(path[1].count("[]")):
        inner = [one for some in inner if isinstance(some, list) for one in some]
    return any([change(one, below, other) for one in inner])  # noqa: C419  # all of them


def put(mapping: dict[str, Any], name: str, other: Any) -> None:
    match mapping[name]:
        case _ if other is GONE:
            del mapping[name]
        case _ if other is not UNLIKE:
            mapping[name] = other
        case bool(value):
            mapping[name] = not value
        case int(value) | float(value):
            mapping[name] = value + 1
        case dict():
            mapping[name] = {PROBE: PROBE}
        case list():
            mapping[name] = [PROBE]
        case _:
            mapping[name] = PROBE


def unread(dialect: str, recordings: Sequence[Path], known: Callable[[str], bool]) -> list[str]:
    """Return the fields that nobody reads, EVENT:FIELD, without those below another one.

    `known`: whether a field is in the table; it is then tried in fewer recordings.
    """
    holders: dict[Way, list[tuple[int, int, Stream]]] = defaultdict(list)
    values: dict[Way, dict[str, Any]] = defaultdict(dict)
    for stream in (Stream(dialect, path) for path in recordings):
        for path, found in stream.paths().items():
            holders[path].append((len(found), -len(stream.kinds), stream))
            values[path] |= found
    without: set[Way] = set()
    for path in sorted(holders, key=len):
        others = [value for _, value in sorted(values[path].items())]
        if all(value in (None, "", [], {}) for value in others):
            continue  # there is nothing to lose
        if any((*path[:depth], path[depth].rstrip("[]")) in without for depth in range(1, len(path))):
            continue
        tried = TRIED_AGAIN if known(_name(path)) else TRIED
        best = sorted(holders[path], key=lambda held: held[:2], reverse=True)
        if not any(stream.reads(path, (others[0], others[-1])) for *_, stream in best[:tried]):
            without.add(path)
    return sorted(map(_name, without))


def _name(path: Way) -> str:
    return f"{path[0]}:{'.'.join(path[1:])}"
