"""The places to which sessions would leave this machine, and how an import ends."""

from typing import Any

import pytest

from pipeline.cli.histories import sessions
from pipeline.cli.histories.session_files import SOURCES
from pipeline.cli.histories.session_import import Counts
from pipeline.cli.histories.sessions import destination_of, import_sessions, places_elsewhere
from pipeline.settings import Settings
from turnmill.errors import TurnmillError


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


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        (Counts(broken=["a.jsonl:3"]), "1 line can't be read"),
        (Counts(unread=["a.jsonl (gone)", "b.jsonl (gone)"]), "2 files can't be read"),
        (Counts(broken=["a.jsonl:3"], unread=["b.jsonl (gone)"]), "1 file and 1 line can't be read"),
    ],
)
def test_what_can_not_be_read_ends_an_import_with_an_error(
    counts: Counts, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def published(*_: object) -> Counts:
        return counts

    monkeypatch.setattr(sessions, "publish_sessions", published)
    monkeypatch.setattr(sessions, "files_of", lambda *_: [])
    wanted = sessions.Wanted(SOURCES["claude-code"])
    with pytest.raises(TurnmillError, match=f"^{named}, as each import will say"):
        import_sessions(destination_of(Settings()), wanted, elsewhere=False)
