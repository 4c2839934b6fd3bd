from typing import Any

from rich.console import Console

from pipeline.cli.stored.thread_view import (
    MAX_VALUE_CHARACTERS,
    nested,
    plain,
    short_time,
    usage_line,
    value_text,
    view,
)


def rendered(document: dict[str, Any]) -> list[str]:
    console = Console(width=100, color_system=None, force_terminal=False)
    with console.capture() as capture:
        for piece in view(document):
            console.print(piece)
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


def thread(*turns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "thread_id": "11111111-1111-4111-8111-111111111111",
        "created_at": "2026-01-20T10:00:00.000Z",
        "updated_at": "2026-01-20T10:00:09.000Z",
        "agents": {"a1": {"agent_id": "a1", "agent_name": "Weather agent"}},
        "turns": list(turns),
        **fields,
    }


def test_a_whole_thread_reads_from_top_to_bottom() -> None:
    user = {"turn_type": "user", "submitted_at": "2026-01-20T10:00:00.000Z"}
    user["parts"] = [{"part_kind": "user-prompt", "content": "Weather in [bold]Paris[/bold]?"}]  # type: ignore[assignment]
    call = {"part_kind": "tool-call", "tool_name": "get_weather", "tool_call_id": "c", "args": {"city": "Paris"}}
    back = {"part_kind": "tool-return", "tool_name": "get_weather", "tool_call_id": "c", "status": "success"}
    agent = {
        "turn_type": "agent",
        "agent_id": "a1",
        "started_at": "2026-01-20T10:00:01.000Z",
        "completed_at": "2026-01-20T10:00:03.500Z",
        "completion_status": "complete",
        "total_usage": {"input_tokens": 130, "output_tokens": 35, "total_tokens": 1165},
        "messages": [
            {
                "message_type": "response",
                "model_name": "m1",
                "finish_reason": "tool_call",
                "usage": {"input_tokens": 50},
                "parts": [
                    {"part_kind": "thinking", "content": "hmm"},
                    {"part_kind": "text", "content": "Let me see"},
                    call,
                ],
            },
            {"message_type": "system", "event_type": "data-app-note", "event_data": {"n": 1}},
            {"message_type": "request", "parts": [{**back, "content": {"temp": "72F"}}]},
            {"message_type": "request", "parts": [{**back, "status": "error", "content": "no wind"}]},
            {"message_type": "response", "parts": [{"part_kind": "file", "content": {"url": "x"}}]},
        ],
    }
    links = {"links": [{"thread_id": "22222222-2222-4222-8222-222222222222", "relation": "spawned_from"}]}
    lines = rendered(thread(user, agent, title="Paris", metadata={"meta:external_id": "chat 7"}, relationships=links))
    assert [line.rstrip(" ─") for line in lines] == [
        "Paris  11111111-1111-4111-8111-111111111111",
        "2 turns · 2026-01-20 10:00:00 – 2026-01-20 10:00:09 · external id chat 7",
        "spawned_from 22222222-2222-4222-8222-222222222222",
        "user  2026-01-20 10:00:00",
        "  Weather in [bold]Paris[/bold]?",
        "Weather agent  2026-01-20 10:00:01 · 2.5 s · 130 in, 35 out, 1,165 total",
        "  hmm",
        "  Let me see",
        '  → get_weather {"city":"Paris"}',
        "  m1 · tool_call · 50 in",
        '  ◇ data-app-note {"n":1}',
        '  ← get_weather {"temp":"72F"}',
        "  ← get_weather error no wind",
        '  ▪ file {"content":{"url":"x"}}',
    ]


def test_an_interruption_is_said_with_its_reason() -> None:
    turn = {"turn_type": "agent", "agent_id": "gone", "started_at": "2026-01-20T10:00:01Z", "messages": []}
    cut = {**turn, "completion_status": "interrupted", "interruption": {"reason": "timeout", "detail": "300 s"}}
    assert rendered(thread(cut))[-2:][0].startswith("gone")
    assert rendered(thread(cut))[-1] == "■ interrupted: timeout, 300 s"


def test_stored_text_can_not_drive_the_terminal() -> None:
    assert plain("a\x1b[31mred\x07\u202eb\x9b\ud800\0\tok\r\nend") == "a�[31mred��b���\tok\nend"
    hostile = {
        "turn_type": "user",
        "submitted_at": "x",
        "parts": [{"part_kind": "text", "content": "\x1b]0;owned\x07"}],
    }
    assert not any("\x1b" in line for line in rendered(thread(hostile, title="\x1b[2J")))


def test_values_are_one_line_and_bounded() -> None:
    assert value_text("as it is") == "as it is"
    assert value_text(None) == "null"
    assert value_text("x" * 5000).startswith("x" * MAX_VALUE_CHARACTERS + "… (5,000 characters)")


def test_small_facts() -> None:
    assert short_time("2026-01-20T12:00:00+02:00") == "2026-01-20 10:00:00"
    assert short_time(1768903200000) == "2026-01-20 10:00:00"
    assert short_time("soon") == ""
    assert usage_line({"input_tokens": 5, "output_tokens": None, "cache_read_tokens": 3}) == "5 in, 3 cache read"
    assert usage_line(None) == ""


def test_versions_are_marked_once_a_run() -> None:
    def run(name: str, *, number: int | None = None) -> list[dict[str, Any]]:
        mark: dict[str, Any] = {"run": name, "follows": None}
        if number is not None:
            mark["version"] = {"number": number, "of": 2, "first": "run-1"}
        user = {"turn_type": "user", "parts": [{"part_kind": "user-prompt", "content": name}]}
        agent = {"turn_type": "agent", "agent_id": "a1"}
        return [{**turn, "meta:run_id": name, "meta:branch": mark} for turn in (user, agent)]

    turns = [*run("run-1", number=1), *run("run-2", number=2), *run("run-3")]
    lines = [line.rstrip(" ─") for line in rendered(thread(*turns))]
    answer = "Weather agent"
    assert lines[2:] == [
        *("version 1 of 2", "user", "  run-1", answer),
        *("version 2 of 2", "user", "  run-2", answer),
        *("user", "  run-3", answer),
    ]


def test_runs_stand_behind_the_run_that_started_them() -> None:
    def turn(run_id: str, parent: str | None = None) -> dict[str, Any]:
        about = {"meta:parent": {"run_id": parent}} if parent else {}
        return {"turn_type": "agent", "agent_id": "a1", "meta:run_id": run_id, **about}

    def tree(*turns: dict[str, Any]) -> list[tuple[int, str]]:
        return [(depth, found.get("meta:run_id", "?")) for depth, found in nested(turns)]

    family = [turn("child", "boss"), turn("boss"), turn("grandchild", "child"), turn("next"), turn("lost", "elsewhere")]
    assert tree(*family) == [(0, "boss"), (1, "child"), (2, "grandchild"), (0, "next"), (0, "lost")]
    assert tree(turn("x", "y"), turn("y", "x"), turn("self", "self")) == [(0, "x"), (1, "y"), (0, "self")]
    assert tree({"turn_type": "user"}, {"turn_type": "user"}) == [(0, "?"), (0, "?")]
    chain = [turn(str(n), str(n - 1)) for n in range(3000)]
    assert tree(*chain)[-1] == (2999, "2999")
