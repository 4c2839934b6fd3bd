"""A replay of a real topic into another database than the one that its worker writes."""

import json

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import all_documents
from tests.support.commands import turnmill
from tests.support.fleet import expected, fleet, interleaved
from tests.support.topic_records import publish
from topics.catalog import EVENTS


async def test_sqlite_and_postgres_come_to_hold_the_same(applied_settings: Settings, postgres_database: str) -> None:
    runs = fleet(31, 20)
    await publish(applied_settings, EVENTS, interleaved(runs, 31))

    async def replayed(*arguments: str) -> dict[str, int]:
        done = await turnmill(applied_settings, "replay", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout)["turns"])

    refused = await turnmill(applied_settings, "replay", "--into", postgres_database)
    assert refused.returncode == 4, "a database is migrated on command only"
    assert "turnmill store migrate" in refused.stderr
    done = await turnmill(applied_settings, "store", "migrate", TURNMILL_STORE=postgres_database)
    assert done.returncode == 0, done.stderr

    for into in ((), ("--into", postgres_database)):
        assert await replayed(*into) == {"unchanged": 0, "changed": 0, "new": 20}
    assert await replayed("--into", postgres_database) == {"unchanged": 20, "changed": 0, "new": 0}
    found = []
    for url in (applied_settings.store_url, postgres_database):
        async with await ThreadStore.open(url) as store:
            found.append({document["thread_id"]: json.dumps(document) async for _, document in all_documents(store)})
    assert found[0] == found[1]
    assert len(found[0]) == len(expected(runs))
