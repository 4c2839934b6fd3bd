"""The places to which sessions would leave this machine."""

from typing import Any

import pytest

from pipeline.cli.histories.sessions import places_elsewhere
from pipeline.settings import Settings


@pytest.mark.parametrize(
    ("given", "away"),
    [
        ({}, []),
        ({"brokers": "127.0.0.1:9092,localhost:9093"}, []),
        ({"store": "postgresql://me:secret@127.0.0.1/threads"}, []),
        ({"archive": "file:///var/archive"}, []),
        ({"brokers": "127.0.0.1:9092,kafka.example.com:9092"}, ["kafka.example.com:9092"]),
        ({"store": "postgresql://me:secret@db.example.com/threads"}, ["db.example.com"]),
        ({"archive": "s3://bucket/prefix"}, ["bucket"]),
        ({"publish_url": "https://gateway.example.com"}, ["https://gateway.example.com"]),
    ],
)
def test_what_is_elsewhere(given: dict[str, Any], away: list[str]) -> None:
    assert places_elsewhere(Settings(**given)) == away
