"""The work of the roles that write to stores: here their parts get what they need of the settings."""

from collections.abc import Awaitable
from functools import partial

from pipeline.kafka.dead_letters import without_value
from pipeline.kafka.outbox import Outbox, Producer
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.archive.audit import AuditArchive
from pipeline.stores.archive.turn_archive import archive_of, feedback_archive_of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.opened import Opened
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.expiry import Expiry
from pipeline.worker.host.group_work import GroupWork
from pipeline.worker.sinks import agreed_clock, housekeeping
from pipeline.worker.sinks.archive import ArchiveOf, ArchiveWork
from pipeline.worker.sinks.housekeeping import Clock, OpenStore, Spending
from pipeline.worker.sinks.store import Burying, FeedbackWriter, StoreWork, TurnWriter
from pipeline.worker.sinks.watching import AlertWatch, BudgetWatch
from pipeline.worker.webhooks.role import feedback_taking
from topics import catalog
from topics.catalog import Topic
from turnmill.kafka.producer import KafkaProducer, connected


def turn_writer(settings: Settings, metrics: Metrics, outbox: Outbox) -> TurnWriter:
    """Return the writer of turns to the store of the settings."""
    opened = partial(ThreadStore.open, settings.store_url, search=settings.search, prices=settings.price_list)
    burying = Burying(settings.topic_prefix, catalog.TURNS, metrics, outbox)
    return TurnWriter(Opened(opened), ContentStore.of(settings), settings.kept_for, burying, metrics)


def store_work(settings: Settings, metrics: Metrics, producer: Producer) -> StoreWork:
    """Return the work of the role `store`."""
    writer = turn_writer(settings, metrics, Outbox(producer, without_value))
    store = writer.store.get
    spending = Spending(store, metrics)

    def connect(topic: Topic) -> Awaitable[KafkaProducer]:
        return connected(settings, topic.full_name(settings.topic_prefix))

    clock = agreed_clock.AgreedClock(connect, store)
    housekeepers = (
        housekeeping.Summing(store, wanted=settings.usage_sums),
        expiring_of(settings, store, metrics, clock),
        housekeeping.SearchBackfill(store),
        housekeeping.AuditKeeping(AuditArchive.of(settings), settings.audit_retention, store, clock),
        spending,
        housekeeping.Notifying(connect, store, metrics),
        BudgetWatch(settings.budget_list, store, metrics),
        AlertWatch(settings.alert_list, store),
    )
    return StoreWork(writer, housekeepers, spending)


def expiring_of(settings: Settings, store: OpenStore, metrics: Metrics, clock: Clock) -> housekeeping.Expiring:
    """Return the part that expires threads; it does nothing if the settings have none expire."""
    return housekeeping.Expiring(
        partial(Expiry, settings) if settings.kept_for.bounded else None, store, metrics, clock
    )


def feedback_writer(settings: Settings, metrics: Metrics, outbox: Outbox) -> FeedbackWriter:
    """Return the writer of feedback to the store of the settings."""
    webhooks = feedback_taking(settings, metrics) if settings.webhooks is not None else None
    burying = Burying(settings.topic_prefix, catalog.FEEDBACK, metrics, outbox)
    return FeedbackWriter(Opened(partial(ThreadStore.open, settings.store_url)), webhooks, burying, metrics)


def feedback_work(settings: Settings, metrics: Metrics, producer: Producer) -> GroupWork:
    """Return the work of the role `feedback`."""
    writer = feedback_writer(settings, metrics, Outbox(producer, without_value))
    return GroupWork("feedback", writer.apply, metrics)


def archive_work(settings: Settings, metrics: Metrics, _: Producer) -> ArchiveWork:
    """Return the work of the role `archive`. Raises CallerError without an archive, or without a cloud's variables."""
    return _archiving(settings, metrics, catalog.TURNS, partial(archive_of, settings))


def feedback_archive_work(settings: Settings, metrics: Metrics, _: Producer) -> ArchiveWork:
    """Return the work of the role `feedback-archive`. Raises CallerError as `archive_work`."""
    return _archiving(settings, metrics, catalog.FEEDBACK, partial(feedback_archive_of, settings))


def _archiving(settings: Settings, metrics: Metrics, topic: Topic, archive: ArchiveOf) -> ArchiveWork:
    name, store = topic.full_name(settings.topic_prefix), Opened(partial(ThreadStore.open, settings.store_url))
    longest_ms, most_bytes = int(settings.archive_age * 1000), settings.archive_bytes
    return ArchiveWork(name, archive, store, settings.kept_for, metrics, longest_ms=longest_ms, most_bytes=most_bytes)
