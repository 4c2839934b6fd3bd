"""Every topic, declared once: creation, documentation, AsyncAPI and the Helm Job read this list."""

from dataclasses import dataclass
from typing import Final, Literal

from turnmill.limits import BATCH_BYTES, OUTPUT_BYTES

DAY_MS = 86_400_000
Cleanup = Literal["delete", "compact,delete"]
Action = Literal["send", "receive"]

# A worker that takes over a partition reads all of a compacted topic's, also what was replaced or removed. A broker
# compacts only segments that are closed, by default after 1 GB or a week, and keeps tombstones for another day.
# Managed brokers take no less than ten minutes for the first; a read must not last longer than the second.
COMPACTION: Final = {"segment.ms": "600000", "delete.retention.ms": "300000"}


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `name` comes after the prefix of the settings; times in ms, sizes in bytes."""

    name: str
    key: str
    value: str
    retention_ms: int
    summary: str
    cleanup: Cleanup = "delete"
    max_message_bytes: int = OUTPUT_BYTES

    def full_name(self, prefix: str) -> str:
        """Return the name on the broker."""
        return f"{prefix}.{self.name}"

    def config(self) -> dict[str, str]:
        """Return the topic's configuration in Kafka's terms."""
        return {
            "cleanup.policy": self.cleanup,
            "retention.ms": str(self.retention_ms),
            "max.message.bytes": str(self.max_message_bytes),
            # Deadlines need times from one clock: producers' clocks may differ, and their times be in another unit.
            "message.timestamp.type": "LogAppendTime",
            **(COMPACTION if "compact" in self.cleanup else {}),
        }


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on a topic, in AsyncAPI's terms: `name` is its id in that document, `summary` its description."""

    name: str
    action: Action
    topic: Topic
    summary: str


EVENTS = Topic(
    "events", "thread_id", "AgentEvent", 3 * DAY_MS, "Raw stream events of agent runs.", "delete", BATCH_BYTES
)
TURNS = Topic("turns", "thread_id", "TurnRecord", 14 * DAY_MS, "Finished turns, and facts about threads.")
TELEMETRY = Topic("telemetry", "thread_id", "TelemetryRecord", 3 * DAY_MS, "data-sys-* events with their run.")
DEAD_LETTERS = Topic(
    "dead-letters",
    "original key",
    "original bytes",
    30 * DAY_MS,
    "What could not be assembled, stored or delivered, and why.",
)
STATE = Topic(
    "state",
    "thread_id/run_id#…",
    "StateEntry",
    2 * DAY_MS,
    "Spilled segments of open turns; closed turns.",
    "compact,delete",
)
NOTICES = Topic(
    "notices",
    "thread_id, or budget",
    "NoticeRecord",
    30 * DAY_MS,
    "What is no turn, and consumers want to hear: deleted threads, budgets that are reached.",
)
FEEDBACK = Topic(
    "feedback",
    "thread_id",
    "FeedbackRecord",
    30 * DAY_MS,
    "What people and programs said of threads, turns and messages.",
)
CONTROL = Topic(
    "control",
    "thread_id",
    "ControlRecord",
    14 * DAY_MS,
    "Commands to runs that are under way, and what became of them.",
)
FACTS = Topic("facts", "id", "NoticeRecord", 90 * DAY_MS, "Changes of the store that no other topic tells of.")

CATALOG: tuple[Topic, ...] = (EVENTS, TURNS, TELEMETRY, DEAD_LETTERS, STATE, NOTICES, FEEDBACK, CONTROL, FACTS)
