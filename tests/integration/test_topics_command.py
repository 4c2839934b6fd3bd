"""`turnmill topics` against a real broker."""

import json
import os
import subprocess
import sys

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.support.places import ROOT
from tests.support.waiting import PATIENCE
from topics.catalog import CATALOG


def topics(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "TURNMILL_BROKERS": settings.brokers,
        "TURNMILL_TOPIC_PREFIX": settings.topic_prefix,
        "TURNMILL_PARTITIONS": str(settings.partitions),
    }
    command = [sys.executable, "-m", "pipeline", "topics", *arguments]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_apply_describe_and_grow(settings: Settings):
    names = [topic.full_name(settings.topic_prefix) for topic in CATALOG]
    few = settings.model_copy(update={"partitions": 3})
    assert json.loads(topics(few, "describe", "--json").stdout)["topics"] == []
    assert topics(few, "apply").stdout.splitlines() == [f"created {name}: 3 partitions, 1 replica" for name in names]
    assert topics(few, "apply").stdout == f"All {len(names)} topics of {settings.topic_prefix} are as they should be.\n"

    assert "left" in topics(settings, "apply").stdout
    described = json.loads(topics(settings, "describe", "--json").stdout)
    assert [(row["name"], len(row["partitions"]), row["replication"]) for row in described["topics"]] == [
        (name, 3, 1) for name in names
    ]
    assert [row["action"] for row in described["differences"]] == ["left"] * len(names)

    grown = topics(settings, "apply", "--grow").stdout.splitlines()
    assert grown == [f"grown {name}: 3 -> {settings.partitions} partitions" for name in names]
    lines = topics(settings, "describe", "--partitions").stdout.splitlines()
    assert len(lines) == 1 + settings.partitions * len(names)


def test_without_a_broker(settings: Settings):
    nobody = settings.model_copy(update={"brokers": f"127.0.0.1:{free_ports(1)[0]}"})
    run = topics(nobody, "apply")
    assert run.returncode == 3
    assert f"no Kafka broker answers at {nobody.brokers}: `turnmill up` starts one" in run.stderr
    assert "Traceback" not in run.stderr
