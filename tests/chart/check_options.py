"""Each key of values.yaml changes what it says, as the table of options has it; bad values are refused."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.chart.definitions import RELEASES, write_schemas
from tests.chart.options import CASES, GATEWAY
from tests.chart.render import CHART, PROFILES, Refused, arguments, helm, nested, text
from tests.chart.tools import BIN

REFUSED: Final = (
    ({"kafka": {"brokers": ""}}, "kafka.brokers is missing"),
    ({"store": {"existingSecret": ""}}, "store.existingSecret is missing"),
    ({"store": {"existingSecret": "", "url": "postgresql://user:secret@db/threads"}}, "store.url has a password"),
    (
        {"store": {"existingSecret": "", "url": "postgresql://db/threads?user=mill&password=secret"}},
        "store.url has a password",
    ),
    ({"store": {"existingSecret": "", "url": "mysql://db/threads"}}, "postgresql://user@host:port/database"),
    ({"kafka": {"brokers": "kafka"}}, 'each address is host:port, without a scheme, and "kafka" is not'),
    ({"kafka": {"brokers": "a:9092,kafka://b:9092"}}, 'and "kafka://b:9092" is not'),
    ({"roles": {"all": {"replicas": 50}}}, "roles.all.replicas 50 is more than topics.partitions 12"),
    ({"settings": {"content": "file:///var/content"}}, "settings.content is a folder, and the pods' disk is read-only"),
    ({"replicas": 3}, "additional properties 'replicas' not allowed"),
    ({"pod": {"tolerate": []}}, "additional properties 'tolerate' not allowed"),
    ({"roles": {"all": {"pod": {"tolerate": []}}}}, "additional properties 'tolerate' not allowed"),
    ({"settings": {"brokers": "a:1"}}, "additional properties 'brokers' not allowed"),
    ({"settings": {"checkpoint_interval": -1}}, "checkpoint_interval"),
    ({"settings": {"log_format": "xml"}}, "log_format"),
    ({"image": {"digest": "latest"}}, "image/digest"),
    ({"autoscaling": {"enabled": True, "maxReplicas": 13}}, "more than topics.partitions 12"),
    ({"autoscaling": {"enabled": True, "minReplicas": 0}}, "minReplicas"),
    (
        {"autoscaling": {"enabled": True, "minReplicas": 5, "maxReplicas": 4}},
        "minReplicas 5 is more than maxReplicas 4",
    ),
    ({"roles": {"store": {"enabled": True}}}, "roles.all runs that role already"),
    ({"roles": {"all": {"enabled": False}}}, "nothing is enabled"),
    ({"roles": {"archive": {"enabled": True}}}, "settings.archive is missing"),
    (
        {"roles": {"archive": {"enabled": True}}, "settings": {"archive": "iceberg+s3://b/p"}},
        "settings.archive_catalog is missing",
    ),
    ({"gateway": {"enabled": True}}, "gateway.tokens.existingSecret is missing"),
    ({"kafka": {"sasl": {"mechanism": "PLAIN", "existingSecret": "s"}}}, "kafka.sasl.username is missing"),
    ({"kafka": {"sasl": {"mechanism": "PLAIN", "username": "u"}}}, "kafka.sasl.existingSecret is missing"),
    ({"dev": {"kafka": {"enabled": True}}}, "set topics.apply=init"),
    ({"gateway": {**GATEWAY["gateway"], "service": {"nodePort": 30080}}}, "a Service of type ClusterIP has none"),
)


def rendered(key: str) -> str:
    """The manifests with the key's new value."""
    base, value, _ = CASES[key]
    return text("plain", base, nested(key, value)) if value is not None else text("plain")


@pytest.mark.parametrize("key", CASES)
def test_a_key_changes_what_it_says(key: str) -> None:
    base, _, expected = CASES[key]
    before, after = text("plain", base), rendered(key)
    assert after != before
    assert expected in after
    assert not expected or expected not in before


def test_strimzis_topics_keep_records_as_long_as_the_settings_say() -> None:
    found = text("strimzi", {"settings": {"retention": "events=86400,turns=2592000"}})
    kept = {m["spec"]["topicName"]: m["spec"]["config"]["retention.ms"] for m in _topics(found)}
    usual = {m["spec"]["topicName"]: m["spec"]["config"]["retention.ms"] for m in _topics(text("strimzi"))}
    assert kept == {**usual, "turnmill.events": "86400000", "turnmill.turns": "2592000000"}


def _topics(manifests: str) -> list[Any]:
    return [m for m in yaml.safe_load_all(manifests) if m and m["kind"] == "KafkaTopic"]


@pytest.mark.parametrize("role", ["webhooks", "notices"])
def test_receivers_of_webhooks_are_reached(role: str) -> None:
    alone = {role: {"enabled": True}}
    with_others = {"all": {"roles": ["assemble", "metrics", "store", role]}}
    assert "{port: 443, protocol: TCP}" not in text("plain")
    for roles in (alone, with_others):
        assert "{port: 443, protocol: TCP}" in text("plain", {"roles": roles})


@pytest.mark.parametrize("release", RELEASES)
def test_what_every_key_makes_is_valid(release: str, tmp_path: Path) -> None:
    where = write_schemas(release, tmp_path / "schemas")
    folder = tmp_path / "manifests"
    folder.mkdir()
    for number, key in enumerate(CASES):
        (folder / f"{number}.yaml").write_text(rendered(key))
    for profile in PROFILES:
        (folder / f"{profile}.yaml").write_text(text(profile))
    command = [str(BIN / "kubeconform"), "-strict", "-summary", "-schema-location", where]
    run = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert f"in {len(CASES) + len(PROFILES)} files" in run.stdout
    assert "Skipped: 0" in run.stdout
    wrong = rendered("kafka.brokers").replace("replicas: 2", "replica: 2")
    assert subprocess.run([*command, "-"], input=wrong, capture_output=True, text=True, check=False).returncode == 1


def test_the_api_of_an_older_strimzi_is_spoken() -> None:
    words = ("template", "t", str(CHART), *arguments("strimzi"))
    assert "apiVersion: kafka.strimzi.io/v1\n" in helm(*words)
    assert "apiVersion: kafka.strimzi.io/v1\n" in helm(
        *words, "--api-versions=kafka.strimzi.io/v1,kafka.strimzi.io/v1beta2"
    )
    assert "apiVersion: kafka.strimzi.io/v1\n" not in helm(*words, "--api-versions=kafka.strimzi.io/v1beta2")


@pytest.mark.parametrize(("values", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_bad_values_are_refused_with_a_message(values: Mapping[str, Any], message: str) -> None:
    with pytest.raises(Refused, match="(?s)" + message.replace("/", "[./]")):
        helm("template", "t", str(CHART), *arguments("plain", values))
