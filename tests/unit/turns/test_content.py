import base64
import hashlib
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.canonical import turn_hash
from pipeline.turns.content import has_long_text, large, moved, pieces, references, resolved
from pipeline.turns.content import others as all_others
from topics import json_text
from topics.thread_rules import check

AT = "2026-01-20T10:00:00.000Z"


def ref(data: bytes, media_type: str) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    return {"uri": f"s3://b/{digest}", "size_bytes": len(data), "hash": f"sha256:{digest}", "media_type": media_type}


def away(turn: dict[str, Any], least: int = 0) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The turn with all values of at least so many bytes elsewhere, and what is there, by URI."""
    found = large(turn, 0 if least < 5000 else 1 << 40, least, 1 << 20)
    refs = [ref(piece.data, piece.media_type) for piece in found]
    return moved(turn, zip(found, refs, strict=True)), {r["uri"]: p.data for p, r in zip(found, refs, strict=True)}


def back(turn: dict[str, Any], objects: dict[str, bytes]) -> dict[str, Any]:
    return resolved(turn, {place: objects[r["uri"]] for place, r in references(turn)})


def agent_turn(*parts: dict[str, Any]) -> dict[str, Any]:
    call = {"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "c", "args": {}}
    return {
        "turn_type": "agent",
        "agent_id": "a",
        "started_at": AT,
        "completed_at": AT,
        "completion_status": "complete",
        "messages": [
            {"message_type": "response", "timestamp": AT, "agent_id": "a", "parts": [call]},
            {"message_type": "request", "timestamp": AT, "agent_id": "a", "parts": list(parts)},
            {
                "message_type": "system",
                "timestamp": AT,
                "event_type": "data-app-x",
                "event_data": {"content": "x" * 99},
            },
        ],
    }


def result(content: Any, kind: str = "tool-return") -> dict[str, Any]:
    return {"part_kind": kind, "tool_name": "t", "tool_call_id": "c", "status": "success", "content": content}


def valid(turn: dict[str, Any]) -> bool:
    agents = {"a": {"agent_id": "a", "agent_name": "a", "created_at": AT}}
    document = {
        "version": "0.0.4",
        "thread_id": "11111111-1111-4111-8111-111111111111",
        "created_at": AT,
        "updated_at": AT,
        "agents": agents,
        "turns": [turn],
    }
    return [str(finding) for finding in check(document) if finding.severity == "error"] == []


text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
base64_text = st.binary().map(lambda raw: base64.b64encode(raw).decode())
binaries = st.fixed_dictionaries(
    {
        "kind": st.just("binary"),
        "data": base64_text | text,
        "media_type": st.sampled_from(["image/png", "x/y", "audio/ogg"]),
    },
    optional={"identifier": text, "vendor_metadata": st.just({"detail": "high"})},
)
files = st.builds(
    lambda content: {"part_kind": "file", "content": content, "id": "f"},
    binaries | binaries.map(lambda content: {k: v for k, v in content.items() if k != "kind"}),
)
results = st.builds(result, json_values, st.sampled_from(["tool-return", "builtin-tool-return"]))
prompts = st.lists(text | binaries | st.just({"kind": "image-url", "url": "https://x.org/i.png"})).map(
    lambda content: {"part_kind": "user-prompt", "content": content}
)


@given(st.lists(results | files | prompts, max_size=4))
def test_what_went_elsewhere_comes_back_as_it_was(parts: list[dict[str, Any]]) -> None:
    turn = agent_turn(*parts)
    before = json_text.dumps(turn)
    outside, objects = away(turn)
    assert json_text.dumps(turn) == before
    assert all(
        "content" not in p for m in outside["messages"] for p in m.get("parts", ()) if p["part_kind"] == "tool-return"
    )
    again = back(outside, objects)
    assert again == turn
    assert turn_hash(again) == turn_hash(turn)


def test_a_result_becomes_a_reference() -> None:
    turn, objects = away(agent_turn(result("x" * 10)))
    part = turn["messages"][1]["parts"][0]
    assert part["content_ref"] == ref(b"x" * 10, "text/plain")
    assert "content" not in part
    assert objects[part["content_ref"]["uri"]] == b"x" * 10
    assert valid(turn)


def test_attachments_become_addresses_and_stay_valid() -> None:
    data = base64.b64encode(b"\x89PNG" * 9).decode()
    image = {"kind": "binary", "data": data, "media_type": "image/png", "identifier": "i1"}
    turn = {
        "turn_type": "user",
        "submitted_at": AT,
        "parts": [{"part_kind": "user-prompt", "content": ["see", image, {**image, "media_type": "application/pdf"}]}],
    }
    outside, objects = away(turn)
    said, first, second = outside["parts"][0]["content"]
    assert said == "see"
    assert (first["kind"], first["url"], first["identifier"]) == ("image-url", first["content_ref"]["uri"], "i1")
    assert second["kind"] == "document-url"
    assert objects[first["url"]] == b"\x89PNG" * 9
    assert valid(outside)
    assert back(outside, objects) == turn


def test_base64_that_an_encoder_would_not_write_comes_back_letter_by_letter() -> None:
    turn = agent_turn({"part_kind": "file", "content": {"kind": "binary", "data": "_-8=\n", "media_type": "image/png"}})
    outside, objects = away(turn)
    assert list(objects.values()) == [b"_-8=\n"]
    assert back(outside, objects) == turn


def test_only_large_values_go_unless_the_record_is_too_large() -> None:
    turn = agent_turn(result("a" * 9000), result("b" * 5000), result("c" * 6000), result("d" * 100))
    assert [piece.size for piece in large(turn, 20_000, 9000, 1 << 20)] == [9000]
    assert [piece.size for piece in large(turn, 20_000, 9000, 6000)] == [9000, 6000]
    assert [piece.size for piece in large(turn, 20_000, 9000, 10)] == [9000, 6000, 5000]


@pytest.mark.parametrize("content", ["ü" * 100, {"text": "x" * 100}, [{"deep": ["no", {"text": "x" * 100}]}]])
def test_a_long_text_is_seen_wherever_it_is_in_a_result(content: Any) -> None:
    turn = {"turn_type": "agent", "messages": [{"parts": [{"part_kind": "tool-return", "content": content}]}]}
    assert has_long_text(turn, 100)
    assert large(turn, 0, 100, sys.maxsize)  # what is seen goes
    assert not has_long_text(turn, 101)
    other = {"turn_type": "agent", "messages": [{"parts": [{"part_kind": "text", "content": content}]}]}
    assert not has_long_text(other, 100)


def test_what_is_elsewhere_already_is_left_there() -> None:
    native = {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "success"}
    turn = agent_turn({**native, "content_ref": {"uri": "https://x.org/1"}})
    assert list(pieces(turn)) == []
    assert references(turn) == [(("messages", 1, "parts", 0), {"uri": "https://x.org/1"})]


@pytest.mark.parametrize(
    ("media_type", "data", "content"),
    [
        ("application/json; charset=utf-8", b'{"a":[1]}', {"a": [1]}),
        ("application/ld+json", b"[]", []),
        ("text/csv", "ä,b".encode(), "ä,b"),
        (None, b"plain", "plain"),
        ("image/png", b"\x89", {"kind": "binary", "media_type": "image/png", "data": "iQ=="}),
    ],
)
def test_a_producers_own_reference_is_read_by_its_media_type(media_type: str | None, data: bytes, content: Any) -> None:
    native = {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "success"}
    reference = {"uri": "https://x.org/1"} | ({"media_type": media_type} if media_type else {})
    turn = agent_turn({**native, "content_ref": reference})
    assert back(turn, {"https://x.org/1": data})["messages"][1]["parts"][0] == {**native, "content": content}


def test_a_file_part_whose_content_is_elsewhere_as_a_whole() -> None:
    part = {"part_kind": "file", "content_ref": {"uri": "gs://b/1", "media_type": "image/png"}, "id": "f"}
    found = back(agent_turn(part), {"gs://b/1": b"\x89"})["messages"][1]["parts"][0]
    assert found == {
        "part_kind": "file",
        "id": "f",
        "content": {"kind": "binary", "media_type": "image/png", "data": "iQ=="},
    }


def test_broken_json_is_a_value_error() -> None:
    native = {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "success"}
    turn = agent_turn({**native, "content_ref": {"uri": "https://x.org/1", "media_type": "application/json"}})
    with pytest.raises(ValueError, match="Expecting"):
        back(turn, {"https://x.org/1": b"{"})


def call(args: Any) -> dict[str, Any]:
    return {"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "c", "args": args}


others = st.one_of(
    st.builds(call, st.dictionaries(text, json_values, min_size=1)),
    st.builds(lambda said: {"part_kind": "text", "content": said}, text),
    st.builds(lambda said: {"part_kind": "thinking", "content": said, "meta:x": {"raw": said}}, text),
    st.builds(lambda said: {"part_kind": "user-prompt", "content": said}, text),
)


@given(st.lists(results | files | prompts | others, max_size=4))
def test_all_values_that_a_turn_can_do_without_come_back_as_they_were(parts: list[dict[str, Any]]) -> None:
    turn = {**agent_turn(*parts), "meta:note": "n" * 9}
    found = [*pieces(turn), *all_others(turn)]
    refs = [ref(piece.data, piece.media_type) for piece in found]
    assert [len(piece.data) for piece in found] == [piece.size for piece in found]
    outside = moved(turn, zip(found, refs, strict=True))
    assert valid(outside) or not valid(turn)
    again = back(outside, {r["uri"]: piece.data for r, piece in zip(refs, found, strict=True)})
    assert again == turn
    assert turn_hash(again) == turn_hash(turn)


def test_arguments_and_texts_leave_only_a_turn_that_is_too_large() -> None:
    turn = agent_turn(result("r" * 9000), call({"text": "a" * 8000}), {"part_kind": "text", "content": "t" * 7000})
    turn["messages"][2]["event_data"] = {"content": "d" * 6000}
    assert [piece.size for piece in large(turn, 30_000, 5000, 30_000)] == [9000]
    assert [(piece.field, piece.size) for piece in large(turn, 30_000, 5000, 14_000)] == [(None, 9000), ("args", 8011)]
    outside, objects = away(turn, 5000)
    parts = outside["messages"][1]["parts"]
    assert [(part.get("args"), part.get("content")) for part in parts[1:]] == [({}, None), (None, "")]
    assert parts[1]["meta:refs"]["args"]["media_type"] == "application/json"
    assert parts[2]["meta:refs"]["content"]["media_type"] == "text/plain"
    assert outside["messages"][2]["event_data"] == {}
    assert valid(outside)
    assert back(outside, objects) == turn
