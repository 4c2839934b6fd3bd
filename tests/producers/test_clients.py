"""Each client is installed, and what it writes is on the topic: what the other tests here rest on."""

from pathlib import Path

import pytest

from pipeline.kafka.reading import records_of
from pipeline.settings import Settings
from tests.producers import clients
from topics.catalog import EVENTS

RECORDS = [("a", '{"n": 0}'), ("a", '{"n": 1}'), ("ä", '{"n": 2}'), ("b", "{}")]


@pytest.mark.parametrize("client", clients.CLIENTS)
async def test_what_a_client_writes_is_on_the_topic(client: str, applied_settings: Settings, tmp_path: Path) -> None:
    clients.write(client, applied_settings, EVENTS, RECORDS, tmp_path)
    written = [(record.key.decode(), record.value.decode()) async for record in records_of(applied_settings, EVENTS)]
    assert sorted(written) == sorted(RECORDS)
