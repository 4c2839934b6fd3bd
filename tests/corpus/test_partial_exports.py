"""What interrupted runs had shown, in every format, as the recordings have it."""

from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.turns.partial_turns import PARTIAL, with_partials
from tests.corpus.compare_wires import FOLDER, Recording, recordings
from topics import json_text

# What it streams is whole steps: what was shown of a run that broke off stays in the turn.
OF_WHOLE_ITEMS = frozenset({"opencode"})
WIRES = sorted({path.parent.name for path in FOLDER.glob("*/*.expected.json")})  # others have a truth of another form


def broken(wire: str) -> list[tuple[Recording, dict[str, Any]]]:
    """The recordings that broke off and had shown something then, with their threads."""
    found = [(recording, recording.assembled()) for recording in recordings(wire)]
    return [(recording, thread) for recording, thread in found if any(PARTIAL in turn for turn in thread["turns"])]


def said(messages: list[dict[str, Any]]) -> str:
    parts = [part for message in messages for part in message.get("parts", [])]
    return max((part["content"] for part in parts if part["part_kind"] == "text"), key=len, default="")


@pytest.mark.parametrize("wire", WIRES)
def test_every_format_has_what_was_shown_where_it_is_asked_for(wire: str) -> None:
    threads = broken(wire)
    assert bool(threads) is (wire not in OF_WHOLE_ITEMS)
    for recording, thread in threads:
        held = [message for turn in thread["turns"] for message in turn.get(PARTIAL, {}).get("messages", [])]
        shown = [message for message in held if message["parts"]]  # the others were billed, and had shown nothing
        document = FORMATS["thread"].printed(thread, partial=True)
        marked = [m for turn in document["turns"] for m in turn.get("messages", []) if m.get(PARTIAL) is True]
        assert marked == [{**message, PARTIAL: True} for message in shown], recording.stream.name
        for name, form in FORMATS.items():
            plain = form.printed(thread)
            if form.is_document:
                assert plain == thread
                continue
            with_all = form.printed(thread, partial=True)
            places = with_all.pop("partial")
            left = [m for place, m in enumerate(with_all["messages"]) if place not in places]
            assert [m for m in plain["messages"] if m in left] == left, (name, recording.stream.name)
            text = said(shown)
            assert not text or places, (name, recording.stream.name)
            told = json_text.dumps([with_all["messages"][place] for place in places])
            assert json_text.dumps(text)[1:-1] in told, (name, recording.stream.name)


def test_a_thread_without_any_is_as_it_was() -> None:
    thread = {"thread_id": "t", "turns": [{"turn_type": "agent", "messages": [{"message_type": "response"}]}]}
    assert with_partials(thread) == thread


def test_messages_stand_where_they_were_shown() -> None:
    times = ["2026-01-20T10:00:01Z", "2026-01-20T10:00:02Z", "2026-01-20T10:00:03Z"]
    own = [{"timestamp": times[0], "n": 1}, {"timestamp": times[2], "n": 3}]
    parts = [{"part_kind": "text", "content": "Yes"}]
    shown = [{"timestamp": times[1], "n": 2, "parts": parts}, {"timestamp": times[2], "n": 4, "parts": parts}]
    turn = {"messages": own, PARTIAL: {"messages": shown}}
    (found,) = with_partials({"turns": [turn]})["turns"]
    assert [message["n"] for message in found["messages"]] == [1, 2, 3, 4]
    assert PARTIAL not in found
