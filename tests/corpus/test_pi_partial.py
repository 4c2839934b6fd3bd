"""What pi's user had seen when a run broke off: never more than was said, and all of it that is not kept."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.turns.text import mend
from tests.corpus.compare_wires import events
from tests.property.records import envelope
from tests.support.assembled import assembled

HERE = Path(__file__).parent
FILES = [
    *(("pi-agent", path) for path in sorted((HERE / "pi-agent").glob("*/*.jsonl"))),
    *(("pi-proxy", path) for path in sorted((HERE / "pi-proxy").glob("*.sse"))),
]


def deltas(said: list[Any]) -> dict[tuple[str, int], str]:
    """The texts and thoughts of the message that is open at the end, by block, as deltas tell them."""
    found: dict[tuple[str, int], str] = {}
    for event in said:
        if event["type"] in ("message_start", "message_end", "agent_end"):
            found.clear()
        told = event.get("assistantMessageEvent", event)
        name, _, step = str(told.get("type")).partition("_")
        if name in ("text", "thinking") and step in ("start", "delta") and isinstance(told.get("contentIndex"), int):
            key = (name, told["contentIndex"])
            found[key] = "" if step == "start" else found.get(key, "") + _appended(told)
    return found


def _appended(told: dict[str, Any]) -> str:
    """What JavaScript adds to a text."""
    delta = told.get("delta", "undefined" if told["type"].endswith("_delta") else "")
    return "null" if delta is None else str(delta)


@pytest.mark.parametrize(("dialect", "path"), FILES, ids=lambda value: getattr(value, "stem", value))
def test_a_run_that_breaks_off_shows_what_was_on_the_screen(dialect: str, path: Path) -> None:
    said = events(dialect, path.read_bytes())
    for stop in {len(said) // 3, len(said) // 2, 2 * len(said) // 3} - {0}:
        got = assembled(dialect, said[:stop])
        turn = next(iter(got.agent_turns[::-1]), {})
        if got.refused or "interruption" not in turn or said[stop - 1]["type"] in ("done", "error"):
            continue
        messages = turn.get("meta:partial", {}).get("messages", [])
        shown = [part for message in messages for part in message["parts"] if part["part_kind"] in ("text", "thinking")]
        for (kind, _), text in deltas(said[:stop]).items():
            found = [part["content"] for part in shown if part["part_kind"] == kind]
            assert not text or any(one.startswith(mend(text)) for one in found), stop  # snapshots may be ahead


@pytest.mark.parametrize("ended", [True, False])
def test_a_block_without_its_end_is_marked(ended: bool) -> None:  # noqa: FBT001  # pytest passes it by name
    said = [{"type": "toolcall_start", "contentIndex": 0, "id": "c", "toolName": "look"}]
    said += [{"type": "toolcall_delta", "contentIndex": 0, "delta": '{"a": 1}' if ended else '{"a'}]
    said += [{"type": "toolcall_end", "contentIndex": 0}] if ended else []
    (turn,) = assembled("pi-proxy", said).agent_turns
    part = {"part_kind": "tool-call", "tool_name": "look", "tool_call_id": "c"}
    wanted = {**part, "args": {"a": 1}} if ended else {**part, "args": {"INVALID_JSON": '{"a'}, "meta:unfinished": True}
    assert turn["meta:partial"]["messages"][0]["parts"] == [wanted]


def test_nothing_is_shown_of_a_response_with_a_hole_in_it() -> None:
    said = [{"type": "text_start", "contentIndex": 0}, *({"type": "text_delta", "contentIndex": 0, "delta": "x"},) * 4]
    records = [envelope("pi-proxy", said[:2], 0), envelope("pi-proxy", said[3:], 3)]
    found, _ = assemble(DIALECTS["pi-proxy"], records)
    assert all("meta:partial" not in record["turn"] for record in found if record["turn"])
