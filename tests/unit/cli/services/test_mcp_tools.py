"""What the tools of `turnmill mcp` ask of a gateway, and how answers are made short."""

import json
from typing import Any

import pytest

from pipeline.cli.services.mcp_tools import MOST, PARAMETERS, TOOLS, query_of, shown
from pipeline.gateway.serving.app import create_app
from pipeline.settings import Settings
from turnmill.errors import CallerError


@pytest.fixture(scope="module")
def paths() -> dict[str, Any]:
    return create_app(Settings()).openapi()["paths"]


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_only_reads_and_asks_for_what_the_gateway_has(name: str, paths: dict[str, Any]) -> None:
    path, _, fixed = TOOLS[name].path.replace("{thread}", "{thread_id}").partition("?")
    operation = paths[path]["get"]
    assert operation["security"] == [{"token": ["read"]}]
    there = {parameter["name"]: parameter for parameter in operation["parameters"]}
    schema = TOOLS[name].schema()
    inside = {"thread"} if "{thread}" in TOOLS[name].path else set()
    assert {*schema["properties"], *(pair.partition("=")[0] for pair in fixed.split("&") if pair)} - inside <= set(
        there
    )
    needed = {parameter for parameter, about in there.items() if about["required"]}
    assert {"thread_id" if one in inside else one for one in schema["required"]} == needed
    for parameter, about in schema["properties"].items():
        if parameter not in inside:
            kinds = there[parameter]["schema"]
            assert (about["type"] == "integer") == ("integer" in json.dumps(kinds) and parameter != "since")


def test_no_parameter_is_described_for_nothing() -> None:
    assert {name for tool in TOOLS.values() for name in tool.parameters.split()} == set(PARAMETERS)


def test_arguments_become_a_query() -> None:
    assert query_of(TOOLS["usage"], {"from": "7d", "agent": None}) == "/v1/usage?from=7d"
    asked = query_of(TOOLS["show_thread"], {"thread": "a/b?{c}", "last": 2})
    assert asked == "/v1/threads/a%2Fb%3F%7Bc%7D?last=5&last=2", "of a parameter that comes twice, the last counts"
    assert query_of(TOOLS["open_runs"], {"thread": "a b"}) == "/v1/runs?thread=a+b"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search_conversations", {}, "missing: q. The arguments are: q: Words that must all occur"),
        ("feedback", {"thread": ""}, "missing: thread. "),
        ("usage", {"tenant": "globex"}, "unknown, or missing: tenant. "),
    ],
)
def test_wrong_arguments_are_told_with_the_right_ones(name: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(CallerError) as raised:
        query_of(TOOLS[name], arguments)
    assert said in str(raised.value)


def test_long_texts_are_shortened_before_the_end_is_cut_off() -> None:
    tool = TOOLS["show_thread"]
    assert shown(tool, {"a": "x" * 30_000}) == json.dumps({"a": "x" * 30_000}, separators=(",", ":"))
    numbers = list(range(3_000))  # between two texts, and longer than a text may be
    answer = {"a": '"\\' * 30_000, "b": numbers, "c": "whole"}
    short = json.loads(shown(tool, answer))
    assert short["a"].startswith('"\\' * 500 + "… (")
    assert (short["b"], short["c"]) == (numbers, "whole")
    cut = shown(tool, {"a": ["y" * 900] * 100})
    assert len(cut) < MOST + 100
    assert cut.endswith("… cut off here: ask for less, by `last`, `limit` or a filter")


def test_of_feedback_nothing_else_is_shown() -> None:
    assert shown(TOOLS["feedback"], {"turns": [1], "meta:feedback": [{"name": "good"}]}) == (
        '{"meta:feedback":[{"name":"good"}]}'
    )
