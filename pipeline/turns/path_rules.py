"""Rules on places: replace the values at a JSON path by a text, unless a turn or thread would be invalid then.

Paths are the part of RFC 9535 that names places: `$.a['b'][0][*]..c`. Filters and slices are not supported.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

Place = tuple[str | int, ...]

TURN: Final = frozenset(
    {"turn_type", "agent_id", "submitted_at", "started_at", "completed_at", "completion_status"}
    | {"meta:turn_id", "meta:run_id", "meta:missing", "meta:partial", "meta:retracted"}
)
INTERRUPTION: Final = frozenset({"reason", "interrupted_at"})
MESSAGE: Final = frozenset(
    {"message_type", "timestamp", "agent_id", "model_name", "provider_name", "finish_reason", "event_type"}
    | {"source_agent", "target_agents", "meta:after_part", "meta:request"}
)
PART: Final = frozenset(
    {"part_kind", "tool_name", "tool_call_id", "id", "status", "signature", "thinking_id", "provider_name"}
    | {"content_ref"}
)
TOKENS: Final = frozenset({"input_tokens", "output_tokens", "thinking_tokens", "total_tokens"})
CONTAINERS: Final = frozenset({"messages", "parts", "interruption", "client_metadata"})
THREAD: Final = frozenset({"external_id", "ended_at", "created_at", "updated_at"})
AGENT: Final = frozenset({"agent_id", "agent_name", "model_name", "provider_name", "created_at", "config_ref"})
LINK: Final = frozenset({"from", "thread_id"})
SEGMENT: Final = re.compile(
    r"""(?P<deep>\.\.)?\[(?:(?P<every>\*)|(?P<index>-?\d{1,9})|'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\]
    | (?P<dots>\.\.?)(?:(?P<all>\*)|(?P<name>[^\s.\[\]'"*@?$()]+))""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One step: a member's name, an element's index, or (None) every child. `deep`: at any depth below."""

    key: str | int | None
    deep: bool


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path from the root of a JSON value to any number of places in it."""

    segments: tuple[Segment, ...]

    def replaced(self, root: Any, change: Callable[[Place, Any], Any]) -> Any:
        """Return `root` with `change(path, value)` at each path: a copy if anything differs, else itself."""
        return self._at(root, 0, (), change)

    def _at(self, value: Any, step: int, path: Place, change: Callable[[Place, Any], Any]) -> Any:
        if step == len(self.segments):
            return change(path, value)
        segment = self.segments[step]
        copy: Any = None
        for key, child in _children(value):
            new = child
            if segment.key is None or segment.key == key or _from_the_end(value, segment.key) == key:
                new = self._at(new, step + 1, (*path, key), change)
            if segment.deep:
                new = self._at(new, step, (*path, key), change)
            if new is not child:
                if copy is None:
                    copy = value.copy()
                copy[key] = new
        return value if copy is None else copy


def parse(text: str) -> JsonPath:
    """Return the path of a text such as `$.messages[*].parts[*].args.ssn`. Raises ValueError with the position."""
    if not text.startswith("$"):
        raise ValueError("a JSON path begins with $")
    at, segments = 1, []
    while at < len(text):
        match = SEGMENT.match(text, at)
        if match is None:
            raise ValueError(
                f"can't be read from {text[at:]!r:.40}: .name, ['name'], [0], [*], .* and ..name are known"
            )
        at = match.end()
        segments.append(_segment(match))
    if not segments:
        raise ValueError("it must lead below the root")
    return JsonPath(tuple(segments))


def _segment(match: re.Match[str]) -> Segment:
    deep = match["deep"] == ".." or match["dots"] == ".."
    if match["every"] or match["all"]:
        return Segment(None, deep)
    if match["index"] is not None:
        return Segment(int(match["index"]), deep)
    quoted = match["single"] if match["single"] is not None else match["double"]
    return Segment(match["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted), deep)


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value)) if isinstance(value, list) else iter(())


def _from_the_end(value: Any, key: str | int) -> int | None:
    return len(value) + key if isinstance(value, list) and isinstance(key, int) and key < 0 else None


@dataclass(frozen=True, slots=True)
class PathRule:
    """Replaces all values at `path` of a turn, or of a run's facts about its thread, by the text `replace`."""

    name: str
    path: JsonPath
    replace: str

    def in_turn(self, turn: Any) -> tuple[Any, int]:
        """Return a ThreadProtocol turn redacted, and the number of places; the same object if there are none."""
        return self._replaced(turn, _holds_a_turn)

    def in_thread(self, thread: Any) -> tuple[Any, int]:
        """Return a thread without turns, with its agents as a list, redacted, and the number of places."""
        return self._replaced(thread, _holds_a_thread)

    def in_request(self, body: Any) -> tuple[Any, int]:
        """Return a request's body redacted, and the number of places."""
        return self._replaced(body, lambda path: False)

    def _replaced(self, root: Any, structural: Callable[[Place], bool]) -> tuple[Any, int]:
        count = 0

        def change(path: Place, value: Any) -> Any:
            nonlocal count
            if structural(path) or value in (self.replace, {"redacted": self.replace}):
                return value
            count += 1
            return self._instead(path, value)

        return self.path.replaced(root, change), count

    def _instead(self, path: Place, value: Any) -> Any:
        """Return the replacement: arguments and metadata stay objects, a file stays a file."""
        if (path[-1] == "args" and "parts" in path[-3:-2]) or (path[-1] == "metadata" and isinstance(value, dict)):
            return {"redacted": self.replace}
        if path[-1] == "content" and isinstance(value, dict) and {"data", "url"} & value.keys():
            return {"kind": "binary", "data": "", "media_type": "text/plain", "identifier": self.replace}
        return self.replace


def _holds_a_turn(path: Place) -> bool:
    """Return True if a turn would be invalid without the value there."""
    if "usage" in path[2:3] or path[0] == "total_usage":
        within = path[3:] if path[0] == "messages" else path[1:]  # counts, and other data of events
        return not within or within[0] in TOKENS
    kept = TURN | CONTAINERS
    if path[0] == "messages" and len(path) > 2:
        path, kept = path[2:], MESSAGE | CONTAINERS
    if path[0] == "parts" and len(path) > 2:
        return len(path) == 3 and path[2] in PART
    if path[0] == "interruption" and len(path) == 2:
        return path[1] in INTERRUPTION
    return path[0] in (kept if len(path) == 1 else ("messages", "parts")) and len(path) <= 2


def _holds_a_thread(path: Place) -> bool:
    """Return True if a thread would be invalid without the value there."""
    match path:
        case ("agents" | "relationships",) | ("agents", int()) | ("relationships", "links") | (_, "links", int()):
            return True
        case ("agents", int(), name):
            return name in AGENT
        case ("relationships", "links", int(), name):
            return name in LINK
        case (name,):
            return name in THREAD
    return False
