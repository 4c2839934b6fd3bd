"""Rules on places: replace the values at a JSON path by a text, unless a turn or thread would be invalid then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pipeline.turns.json_path import JsonPath, Place

TURN: Final = frozenset(
    {"turn_type", "agent_id", "submitted_at", "started_at", "completed_at", "completion_status"}
    | {"meta:turn_id", "meta:run_id", "meta:missing", "meta:partial"}
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
