"""The builder: parts by the ids of the wire, and requests behind the responses that they answer."""

from typing import Any

import pytest

from pipeline.assembly.builder import Builder
from pipeline.assembly.offline import fork
from pipeline.assembly.parts import Context, Message

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


@pytest.fixture
def builder() -> Builder:
    return Builder(Context(THREAD, "r", "a", "toy"), 1000)


def kinds(messages: list[Message]) -> list[tuple[str, list[Any]]]:
    return [
        (m.kind, [part.fields.get("tool_call_id", part.fields.get("content")) for part in m.parts]) for m in messages
    ]


def test_parts_by_their_ids(builder: Builder) -> None:
    one, two = builder.text_start("1"), builder.text_start("2")
    thought = builder.thinking_start("1", signature="s")
    builder.text_end("2")
    builder.thinking_end("1", extra=1)
    assert (one.done, two.done, thought.done) == (False, True, True)
    assert thought.fields == {"part_kind": "thinking", "content": "", "signature": "s", "extra": 1}
    with pytest.raises(KeyError):
        builder.text_end("2")


def test_long_texts_are_joined_no_further(builder: Builder) -> None:
    part = builder.text_start("1")
    said = []
    for delta in ("a" * 500, "b" * 11, "c", "d" * 600, "e", "f", "g" * 512):
        part.chunks.append(delta)
        said.append(delta)
        builder.compact()
        assert "".join(part.chunks) == "".join(said)
    assert [len(chunk) for chunk in part.chunks] == [512, 600, 514]


def test_an_id_that_is_opened_again_abandons_the_first(builder: Builder) -> None:
    first, second = builder.text_start("1"), builder.text_start("1")
    builder.text_end("1")
    assert (first.done, second.done) == (False, True)


def test_a_response_that_closes_takes_its_open_parts_along(builder: Builder) -> None:
    builder.text_start("1")
    builder.at = 2000
    response = builder.current_response()
    builder.close_response()
    builder.close_response()
    assert (response.closed, response.last_at, builder.open_text) == (True, 2000, {})
    with pytest.raises(KeyError):
        builder.text_end("1")


def test_a_call_and_its_return(builder: Builder) -> None:
    builder.tool_start("c", "weather")
    call = builder.tool_call("c", "weather", {"city": "Oslo"})
    assert call.done
    assert call.fields["args"] == {"city": "Oslo"}
    builder.close_response()
    answer = builder.tool_return("c", content=5)
    assert answer is not None
    assert answer.fields == {"part_kind": "tool-return", "tool_name": "weather", "tool_call_id": "c", "content": 5}
    assert kinds(builder.messages) == [("response", ["c"]), ("request", ["c"])]


def test_the_last_of_several_returns_wins(builder: Builder) -> None:
    builder.tool_call("c", "weather", {})
    builder.tool_return("c", content="preliminary")
    builder.tool_return("c", content="final")
    assert [part.fields["content"] for part in builder.messages[1].parts] == ["final"]


def test_a_return_before_its_call_waits(builder: Builder) -> None:
    assert builder.tool_return("c", content=5) is None
    builder.tool_call("c", "weather", {})
    assert kinds(builder.messages) == [("response", ["c"]), ("request", ["c"])]
    assert builder.orphans == {}


def test_an_id_used_again_in_a_later_response_is_another_call(builder: Builder) -> None:
    builder.tool_call("c", "weather", {"n": 1})
    builder.close_response()
    builder.tool_return("c", content=1)
    builder.open_response()
    builder.tool_call("c", "weather", {"n": 2})
    builder.tool_return("c", content=2)
    assert kinds(builder.messages) == [("response", ["c"]), ("request", ["c"])] * 2
    assert [m.parts[0].fields.get("content") for m in builder.messages if m.kind == "request"] == [1, 2]


def test_a_late_return_goes_behind_the_response_that_it_answers(builder: Builder) -> None:
    builder.tool_call("c", "weather", {})
    builder.open_response()
    builder.text_start("t")
    builder.tool_return("c", content=1)
    assert [kind for kind, _ in kinds(builder.messages)] == ["response", "request", "response"]


def test_usage_goes_to_the_newest_response_and_a_second_report_replaces_the_first(builder: Builder) -> None:
    builder.usage({"input_tokens": 1})
    response = builder.open_response()
    builder.usage({"input_tokens": 2})
    builder.close_response()
    builder.usage({"input_tokens": 3})
    assert (response.fields["usage"], response.usage_streamed) == ({"input_tokens": 3}, False)
    builder.sys_event("data-sys-usage", {"input_tokens": 4})
    builder.sys_event("data-sys-usage", "no object")
    assert (response.fields["usage"], response.usage_streamed) == ({"input_tokens": 4}, True)
    assert len(builder.telemetry) == 2


def test_a_system_message_knows_its_place_within_a_response(builder: Builder) -> None:
    assert "meta:after_part" not in builder.system("data-app-x", 1).fields
    builder.text_start("1")
    assert builder.system("data-app-x", 2).fields["meta:after_part"] == 1


def test_a_turn_that_is_over_leaves_nothing_to_the_next(builder: Builder) -> None:
    builder.tool_call("c", "weather", {})
    builder.usage({"input_tokens": 1})
    builder.notes["meta:x"] = 1
    builder.at = builder.last_at = 5000
    builder.end_turn("complete")
    (turn,) = builder.agent_turns
    assert (turn.first_at, turn.last_at, turn.end, len(turn.messages)) == (1000, 5000, "complete", 1)
    assert (builder.messages, builder.calls, builder.notes, builder.response, builder.first_at) == (
        [],
        {},
        {},
        None,
        5000,
    )


def test_a_copy_goes_its_own_way(builder: Builder) -> None:
    part = builder.text_start("1")
    twin = fork(builder)
    twin.open_text["1"].chunks.append("x")
    twin.text_end("1")
    assert (part.chunks, part.done, list(builder.open_text)) == ([], False, ["1"])
