"""The roles of a worker: one table for all code that lists, starts, measures or describes roles.

It is read by the worker, doctor, demo, `/v1/status`, AsyncAPI, the documentation and the Helm chart. A role's own
modules are loaded when it starts, so that reading this table loads neither Faust nor a database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from topics import catalog
from topics.catalog import CONTROL, DEAD_LETTERS, EVENTS, FEEDBACK, NOTICES, STATE, TELEMETRY, TURNS, Operation, Topic
from turnmill.errors import CallerError

if TYPE_CHECKING:
    from pipeline.kafka.outbox import Producer
    from pipeline.observability.metrics import Metrics
    from pipeline.settings import Settings
    from pipeline.worker.host.work import Work
    from turnmill.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class Role:
    """A part of the worker that can run in a process of its own, with its own consumer group.

    `topic`: that which it reads; `operations`: all that it does with topics; `built_by`: the function that makes its
    Work, as `room.module:function` of `pipeline.worker`. `needs_setting`: the setting without which it can't run; by
    default it runs if that is set. A `light` role needs little, so only one of a worker's processes has it. With
    `from_now`, it begins at the end of its topic when it runs for the first time, not at the oldest record.
    """

    name: str
    does: str
    topic: Topic
    operations: tuple[Operation, ...]
    built_by: str
    needs_store: bool = False
    needs_setting: str | None = None
    light: bool = False
    from_now: bool = False

    def group(self, settings: BrokerSettings) -> str:
        """Return its consumer group, which does not depend on the roles in its process."""
        return f"{settings.topic_prefix}-{self.name}"

    def work(self, settings: Settings, metrics: Metrics, producer: Producer) -> Work:
        """Return its work, which sends results through `producer`. Raises CallerError for settings that can't work."""
        module, _, function = self.built_by.partition(":")
        return cast("Work", getattr(import_module(f"pipeline.worker.{module}"), function)(settings, metrics, producer))


_ROLES: Final = (
    Role(
        "assemble",
        "Assembles the events of each run into a turn.",
        EVENTS,
        (
            Operation("assembleEvents", "receive", EVENTS, "Assemble the events of each run into turns."),
            Operation("publishTurns", "send", TURNS, "Publish each finished turn."),
            Operation("publishTelemetry", "send", TELEMETRY, "Pass data-sys-* events on."),
            Operation("tellFeedback", "send", FEEDBACK, "Pass data-feedback events on."),
            Operation("refuseRecords", "send", DEAD_LETTERS, "Keep what could not be assembled, with the reason."),
            Operation("rememberRuns", "send", STATE, "Remember runs that are open for long, and those just closed."),
            Operation("recallRuns", "receive", STATE, "Take over the runs of a partition."),
        ),
        "assemble.role:assemble_work",
    ),
    Role(
        "metrics",
        "Counts telemetry for Prometheus.",
        TELEMETRY,
        (Operation("countTelemetry", "receive", TELEMETRY, "Turn telemetry into metrics."),),
        "sinks.metrics:metrics_work",
        light=True,
    ),
    Role(
        "store",
        "Writes turns to the thread store.",
        TURNS,
        (
            Operation("storeTurns", "receive", TURNS, "Write turns to the thread store."),
            Operation("refuseTurns", "send", DEAD_LETTERS, "Keep what could not be stored, with the reason."),
            Operation("publishNotices", "send", NOTICES, "Say which threads were deleted."),
            Operation("publishFacts", "send", catalog.FACTS, "Tell what a store from a backup would lack."),
        ),
        "sinks.role:store_work",
        needs_store=True,
    ),
    Role(
        "feedback",
        "Writes feedback to the thread store.",
        FEEDBACK,
        (
            Operation("storeFeedback", "receive", FEEDBACK, "Write feedback to the thread store."),
            Operation("refuseFeedback", "send", DEAD_LETTERS, "Keep what is no feedback, with the reason."),
        ),
        "sinks.role:feedback_work",
        needs_store=True,
        needs_setting="feedback",
        light=True,
    ),
    Role(
        "archive",
        "Writes turns to Parquet files on object storage.",
        TURNS,
        (Operation("archiveTurns", "receive", TURNS, "Write turns to Parquet files on object storage."),),
        "sinks.role:archive_work",
        needs_store=True,
        needs_setting="archive",
        light=True,
    ),
    Role(
        "feedback-archive",
        "Writes feedback to Parquet files on object storage.",
        FEEDBACK,
        (Operation("archiveFeedback", "receive", FEEDBACK, "Write feedback to Parquet files on object storage."),),
        "sinks.role:feedback_archive_work",
        needs_store=True,
        needs_setting="archive",
        light=True,
    ),
    Role(
        "webhooks",
        "Delivers finished turns to webhooks, and what waits for them.",
        TURNS,
        (
            Operation("deliverTurns", "receive", TURNS, "Deliver finished turns to webhooks."),
            Operation("refuseDeliveries", "send", DEAD_LETTERS, "Keep what a webhook did not take."),
        ),
        "webhooks.role:turns_work",
        needs_store=True,
        needs_setting="webhooks",
        light=True,
        from_now=True,
    ),
    Role(
        "notices",
        "Delivers notices to webhooks: deletions, and budgets that are reached.",
        NOTICES,
        (Operation("deliverNotices", "receive", NOTICES, "Deliver notices to webhooks."),),
        "webhooks.role:notices_work",
        needs_store=True,
        needs_setting="webhooks",
        light=True,
        from_now=True,
    ),
)
ROLES: Final = {role.name: role for role in _ROLES}
OF_GATEWAYS: Final = (
    Operation("publishFeedback", "send", FEEDBACK, "Publish what callers say of threads."),
    Operation("giveCommands", "send", CONTROL, "Tell runs to stop, and others what became of it."),
    Operation("hearCommands", "receive", CONTROL, "Know what other gateways have commanded."),
)
OPERATIONS: Final = (*(operation for role in _ROLES for operation in role.operations), *OF_GATEWAYS)


def default_roles(settings: Settings) -> list[Role]:
    """Return the roles that these settings allow: all, but archive only with an archive."""
    return [role for role in _ROLES if role.needs_setting is None or getattr(settings, role.needs_setting)]


def roles_named(names: Iterable[str]) -> list[Role]:
    """Return the roles of these names, in this order. Raises CallerError for unknown names, or none."""
    names = list(names)
    unknown = sorted(set(names) - set(ROLES))
    if unknown or not names:
        raise CallerError(f"no such role: {', '.join(unknown) or 'none given'}; there are {', '.join(ROLES)}")
    return [ROLES[name] for name in names]
