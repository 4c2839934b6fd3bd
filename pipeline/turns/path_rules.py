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
        return self._replaced(body, lambda place: False)

    def _replaced(self, root: Any, structural: Callable[[Place], bool]) -> tuple[Any, int]:
        count = 0

        def change(place: Place, value: Any) -> Any:
            nonlocal count
            if structural(place) or value in (self.replace, {"redacted": self.replace}):
                return value
            count += 1
            return self._instead(place, value)

        return self.path.replaced(root, change), count

    def _instead(self, place: Place, value: Any) -> Any:
        """Return the replacement: arguments and metadata stay objects, a file stays a file."""
        if (place[-1] == "args" and "parts" in place[-3:-2]) or (place[-1] == "metadata" and isinstance(value, dict)):
            return {"redacted": self.replace}
        if place[-1] == "content" and isinstance(value, dict) and {"data", "url"} & value.keys():
            return {"kind": "binary", "data": "", "media_type": "text/plain", "identifier": self.replace}
        return self.replace


def _holds_a_turn(place: Place) -> bool:
    """Return True if a turn would be invalid without the value there."""
    if "usage" in place[2:3] or place[0] == "total_usage":
        within = place[3:] if place[0] == "messages" else place[1:]  # counts, and other data of events
        return not within or within[0] in TOKENS
    kept = TURN | CONTAINERS
    if place[0] == "messages" and len(place) > 2:
        place, kept = place[2:], MESSAGE | CONTAINERS
    if place[0] == "parts" and len(place) > 2:
        return len(place) == 3 and place[2] in PART
    if place[0] == "interruption" and len(place) == 2:
        return place[1] in INTERRUPTION
    return place[0] in (kept if len(place) == 1 else ("messages", "parts")) and len(place) <= 2


def _holds_a_thread(place: Place) -> bool:
    """Return True if a thread would be invalid without the value there."""
    match place:
        case ("agents" | "relationships",) | ("agents", int()) | ("relationships", "links") | (_, "links", int()):
            return True
        case ("agents", int(), name):
            return name in AGENT
        case ("relationships", "links", int(), name):
            return name in LINK
        case (name,):
            return name in THREAD
    return False
