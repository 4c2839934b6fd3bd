import json

import pytest
from click.testing import CliRunner

from pipeline.cli.kafka.topics import topics
from topics.catalog import CATALOG


def run(*arguments: str) -> str:
    result = CliRunner().invoke(topics, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_list_needs_no_broker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TURNMILL_TOPIC_PREFIX", "fleet")
    text = run("list")
    rows = json.loads(run("list", "--json"))
    assert [row["topic"] for row in rows] == [f"fleet.{topic.name}" for topic in CATALOG]
    assert all(row["topic"] in text for row in rows)
    assert rows[0]["config"]["retention.ms"] == "259200000"


def test_asyncapi_is_of_the_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TURNMILL_BROKERS", "kafka-1:9092,kafka-2:9092")
    monkeypatch.setenv("TURNMILL_PARTITIONS", "24")
    described = json.loads(run("asyncapi"))
    assert described["asyncapi"] == "3.0.0"
    assert [server["host"] for server in described["servers"].values()] == ["kafka-1:9092", "kafka-2:9092"]
    assert described["channels"]["turns"]["bindings"]["kafka"]["partitions"] == 24
