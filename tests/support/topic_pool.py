"""Topics of tests, created before tests ask for them and deleted after them, those of many tests at once.

A test that creates and deletes its own topics waits for the broker twice. Instead, the process that has the session's
broker keeps some prefixes whose topics exist; a test takes one, which no other test gets, and gives it back. Both are
a file that is renamed, which only one process can do:

    ready/PREFIX    its topics exist
    taken/PREFIX    a test uses it
    used/PREFIX     its topics are deleted next
"""

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

from aiokafka import TopicPartition

from pipeline.kafka.admin import _create
from pipeline.kafka.offsets import cluster_of, connected, offsets_of, partitions_of
from pipeline.kafka.topic_plan import Partition, wanted
from pipeline.settings import Settings
from topics.catalog import CATALOG
from turnmill.errors import TurnmillError

PARTITIONS: Final = 4  # of the topics of a test: the broker makes and deletes hundreds of topics in a session
READY: Final = 12  # prefixes that are kept: two for each of six processes
AT_ONCE: Final = 6  # prefixes whose topics are created, or deleted, by one request
PAUSE: Final = 0.2  # seconds between two looks

log = logging.getLogger(__name__)


def taken(folder: Path) -> str | None:
    """Take a prefix whose topics exist, and return it; None if none is ready."""
    for file in sorted((folder / "ready").iterdir()):
        with suppress(FileNotFoundError):  # another process was faster
            return file.rename(folder / "taken" / file.name).name
    return None


def is_taken(folder: Path, prefix: str) -> bool:
    """Return True if a test has taken this prefix, whose topics so exist."""
    return (folder / "taken" / prefix).exists()


def give_back(folder: Path, prefix: str) -> None:
    """Let the topics of a prefix be deleted, also of one that was not taken from here."""
    (folder / "used" / prefix).touch()
    (folder / "taken" / prefix).unlink(missing_ok=True)


class TopicPool:
    """The thread that creates and deletes topics; it runs until `stop`, and leaves the rest to the broker's end."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._ending = Event()
        for name in ("ready", "taken", "used"):
            (folder / name).mkdir(parents=True)
        self._thread = Thread(target=self._run, name="topic-pool", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it is doing is done first."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(PAUSE):
            try:
                asyncio.run(self._round())
            except FileNotFoundError:
                return  # pytest removes the folder just before it ends the servers
            except TurnmillError as error:  # a busy broker: tests create their own meanwhile
                log.warning("topics are neither created nor deleted ahead: %s", error)

    async def _round(self) -> None:
        """Create or delete the topics of some prefixes, if so many are missing or used."""
        if READY - len(self._names("ready")) >= AT_ONCE:
            prefixes = [f"pool-{uuid.uuid4().hex[:8]}" for _ in range(AT_ONCE)]
            await create(self._settings, prefixes)
            for prefix in prefixes:
                (self._folder / "ready" / prefix).touch()
        if len(used := self._names("used")) >= AT_ONCE:
            await delete(self._settings, used)
            for prefix in used:
                (self._folder / "used" / prefix).unlink()

    def _names(self, state: str) -> list[str]:
        return [file.name for file in (self._folder / state).iterdir()]


async def create(settings: Settings, prefixes: Sequence[str]) -> None:
    """Create the topics of all these prefixes; they have leaders when it returns."""
    async with connected(settings) as client:
        brokers = len((await cluster_of(client)).brokers)
        wants = [
            want
            for prefix in prefixes
            for want in wanted(CATALOG, prefix, PARTITIONS, settings.replication, brokers, settings.retention_ms)
        ]
        await _create(client, wants)
        while not _led(await partitions_of(client, [want.name for want in wants]), len(wants)):
            await asyncio.sleep(PAUSE)
        # A broker answers for a partition only once it leads it, which on a busy disk is seconds after it says so.
        await offsets_of(settings, [TopicPartition(want.name, n) for want in wants for n in range(want.partitions)])


def _led(partitions: Mapping[str, list[Partition]], topics: int) -> bool:
    """Return True if the broker knows so many topics, and a leader of each partition."""
    return len(partitions) == topics and all(row.leader is not None for rows in partitions.values() for row in rows)


async def delete(settings: Settings, prefixes: Sequence[str]) -> None:
    """Delete all topics whose names begin with one of the prefixes."""
    starts = tuple(f"{prefix}." for prefix in prefixes)
    async with connected(settings) as client:
        if theirs := [name for name in await client.list_topics() if name.startswith(starts)]:
            await client.delete_topics(theirs)
