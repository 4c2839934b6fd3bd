from typing import Any

from pipeline.turns.error_mask import GENERIC, masked


def system(event_type: str, data: Any) -> dict[str, Any]:
    return {"message_type": "system", "event_type": event_type, "event_data": data}


def test_every_error_text_becomes_generic() -> None:
    why = "no route to db-7.internal"
    failed = {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "error", "content": why}
    turn = {
        "turn_type": "agent",
        "interruption": {"reason": "error", "interrupted_at": "2026", "detail": why},
        "meta:vercel": {"state": "output-error", "text": why, "also": [why, "kept"]},
        "messages": [
            system("error", {"error": why, "code": "E7", "timestamp": 1, "nested": {"a": why}}),
            system("data-tp-error", why),
            system("data-app-mirror", {"a": why}),
            {
                "message_type": "request",
                "parts": [
                    {**failed, "metadata": {"trace": why}},
                    {"part_kind": "retry-prompt", "content": [{"msg": "bad", "input": "secret"}]},
                    {"part_kind": "builtin-tool-return", "outcome": "failed", "content": {"e": why}},
                    {**failed, "status": "success", "content": "fine"},
                ],
            },
        ],
    }
    found, _, count = masked(turn, {})
    assert count == 7
    assert found["interruption"] == {"reason": "error", "interrupted_at": "2026", "detail": GENERIC}
    assert found["meta:vercel"] == {"state": "output-error", "text": GENERIC, "also": [GENERIC, "kept"]}
    first, second, third, request = found["messages"]
    assert first["event_data"] == {"error": GENERIC, "code": "E7", "timestamp": 1, "nested": GENERIC}
    assert second["event_data"] == GENERIC
    assert third["event_data"] == {"a": why}
    assert [part["content"] for part in request["parts"]] == [GENERIC, GENERIC, GENERIC, "fine"]
    assert request["parts"][0]["metadata"] == {"trace": GENERIC}
    assert turn["messages"][3]["parts"][0]["content"] == why  # type: ignore[index]
    assert masked(found, {})[2] == 0


def test_a_turn_without_errors_is_the_very_same() -> None:
    turn = {"turn_type": "agent", "messages": [system("terror", {"error": "x"})]}
    assert masked(turn, {}) == (turn, {}, 0)
    assert masked(turn, {})[0] is turn


def test_notes_beside_the_turn_do_not_repeat_an_error() -> None:
    turn = {"interruption": {"reason": "error", "interrupted_at": "2026", "detail": "no route to db-7"}}
    _, notes, count = masked(turn, {"thread": {"title": "weather", "metadata": {"app.last": ["no route to db-7"]}}})
    assert notes == {"thread": {"title": "weather", "metadata": {"app.last": [GENERIC]}}}
    assert count == 1
