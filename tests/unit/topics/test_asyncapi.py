from collections.abc import Iterator
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from pipeline.worker.host.roles import OPERATIONS
from topics.agent_event import AgentEvent
from topics.asyncapi import document
from topics.catalog import CATALOG
from topics.turn_record import TurnRecord
from turnmill.errors import Reason
from turnmill.wire.registry import WIRES


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document("fleet", operations=OPERATIONS, version="1.2.3", brokers=["a:1", "b:2"], partitions=6, replicas=3)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def resolved(document: dict[str, Any], reference: str) -> Any:
    value: Any = document
    for step in reference.removeprefix("#/").split("/"):
        value = value[step]
    return value


def test_every_reference_leads_somewhere(described: dict[str, Any]):
    found = set(references(described))
    assert len(found) > 20
    for reference in found:
        assert isinstance(resolved(described, reference), dict)


def test_each_topic_is_a_channel_with_its_configuration(described: dict[str, Any]):
    assert list(described["channels"]) == [topic.name for topic in CATALOG]
    for topic, channel in zip(CATALOG, described["channels"].values(), strict=True):
        binding = channel["bindings"]["kafka"]
        assert channel["address"] == f"fleet.{topic.name}"
        assert (binding["partitions"], binding["replicas"]) == (6, 3)
        assert ",".join(binding["topicConfiguration"]["cleanup.policy"]) == topic.cleanup
        assert binding["topicConfiguration"]["retention.ms"] == topic.retention_ms


def test_what_is_not_known_is_left_out():
    bare = document()
    assert bare["servers"] == {}
    assert set(bare["channels"]["events"]["bindings"]["kafka"]) == {"topicConfiguration", "bindingVersion"}


def test_payloads_are_those_of_the_models(described: dict[str, Any]):
    schemas = described["components"]["schemas"]
    assert set(schemas["AgentEvent"]["properties"]) == set(AgentEvent.model_fields)
    assert schemas["AgentEvent"]["properties"]["dialect"]["examples"] == list(WIRES)
    hints = get_type_hints(TurnRecord, include_extras=True)
    always = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    assert set(schemas["TurnRecord"]["required"]) == always < set(hints)
    assert set(schemas["TurnRecord"]["properties"]) == set(TurnRecord.__annotations__)
    assert "#/components/schemas/AgentTurn" in set(references(schemas["TurnRecord"]["properties"]["turn"]))


def test_dead_letters_have_their_reasons(described: dict[str, Any]):
    headers = described["components"]["messages"]["DeadLetter"]["headers"]
    assert headers["properties"]["turnmill.reason"]["enum"] == list(Reason)


def test_each_topic_is_written_or_read_by_an_operation(described: dict[str, Any]):
    used = {operation["channel"]["$ref"] for operation in described["operations"].values()}
    assert used == {f"#/channels/{topic.name}" for topic in CATALOG}
