"""A run that was told to stop says so on every wire, and is the same turn otherwise."""

from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.dialects.control import ANSWERED_BY, STEERED_BY, STOPPED_BY
from pipeline.gateway.live import routes
from pipeline.gateway.live.recent_events import EventId, LiveEvent
from tests.support.upstream import chat_chunks
from turnmill.control.record import EVENT

THREAD = "8e06a734-32f3-584c-a380-4e57c9b39f3f"


def turns(dialect: str, *events: Any, end: str = "aborted") -> list[Any]:
    envelope = {
        "v": 1,
        "thread_id": THREAD,
        "run_id": "r",
        "agent_id": "a",
        "dialect": dialect,
        "seq": 0,
        "ts": 1_768_903_200_000,
        "events": list(events),
        "end": end,
    }
    records, refused = assemble(DIALECTS[dialect], [envelope])
    assert refused == []
    return [record for record in records if record["turn"] and record["turn"]["turn_type"] == "agent"]


def heard(dialect: str, **more: Any) -> dict[str, Any]:
    said = {"id": "c1", "state": "acknowledged", "by": "ann", **more}
    return {DIALECTS[dialect].wire.kind: EVENT, **said}


# Spans hear no commands.
@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in ("thread-protocol", "otel")])
def test_who_stopped_it_stands_in_the_turn(dialect: str) -> None:
    [record] = turns(dialect, heard(dialect), heard(dialect, id="c2", by="bob"))
    turn = record["turn"]
    assert turn[STOPPED_BY] == {"command_id": "c1", "by": "ann"}
    assert (turn["completion_status"], turn["interruption"]["reason"]) == ("interrupted", "user_cancelled")


def test_the_hash_is_that_of_the_run_without_it() -> None:
    said = chat_chunks("It ", "rains.")
    [stopped], [alone] = turns("openai-chat", *said, heard("openai-chat")), turns("openai-chat", *said)
    assert stopped["hash"] == alone["hash"]
    assert STOPPED_BY not in alone["turn"]


def test_what_was_only_completed_or_refused_stopped_nothing() -> None:
    for state in ("completed", "refused", None):
        [record] = turns("vercel-ai", heard("vercel-ai", state=state))
        assert STOPPED_BY not in record["turn"]


@pytest.mark.parametrize("name", [name for name, one in DIALECTS.items() if one.resume is not None])
def test_clients_of_sdks_are_not_told(name: str) -> None:
    dialect = DIALECTS[name]
    event = LiveEvent(EventId(0, 0, 0), {"dialect": name}, 0, 0, heard(name))
    assert dialect.resume is not None
    assert routes._own_frame(event, dialect, dialect.resume, None).data == b""


def steered(dialect: str, **more: Any) -> dict[str, Any]:
    return heard(dialect, kind="steer", text="And in Oslo?", **more)


def prompts(turn: Any) -> list[Any]:
    return [
        (place, part["content"], part.get(STEERED_BY))
        for place, message in enumerate(turn["messages"])
        if message["message_type"] == "request"
        for part in message["parts"]
        if part["part_kind"] == "user-prompt"
    ]


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "thread-protocol"])
@pytest.mark.parametrize("end", ["complete", "aborted"])
def test_a_steer_is_a_message_of_the_turn_with_its_author(dialect: str, end: str) -> None:
    [record] = turns(dialect, steered(dialect), steered(dialect), steered(dialect, id="c2", by="bob"), end=end)
    both = [
        (0, "And in Oslo?", {"command_id": "c1", "by": "ann"}),
        (1, "And in Oslo?", {"command_id": "c2", "by": "bob"}),
    ]
    assert [one[1:] for one in prompts(record["turn"])] == [one[1:] for one in both]


def test_a_steer_stands_behind_the_response_that_it_followed() -> None:
    first, second = chat_chunks("It ", "rains."), chat_chunks("There, ", "too.")
    answer = [one | {"id": "chatcmpl-2"} for one in second]
    ask = {"object": "turnmill.request", "request": {"messages": [{"role": "user", "content": "Weather?"}]}}
    later = [*ask["request"]["messages"], {"role": "assistant", "content": "It rains."}]  # type: ignore[index]
    told = {
        "object": "turnmill.request",
        "request": {"messages": [*later, {"role": "user", "content": "And in Oslo?"}]},
    }
    said = [ask, *first, steered("openai-chat"), told, *answer]
    [record] = turns("openai-chat", *said, end="complete")
    assert prompts(record["turn"]) == [(1, "And in Oslo?", {"command_id": "c1", "by": "ann"})]
    [alone] = turns("openai-chat", *[one for one in said if one.get("object") != EVENT], end="complete")
    assert alone["hash"] == record["hash"]


def test_who_answered_stands_in_the_turn() -> None:
    said = heard("vercel-ai", kind="answer", answer_id="q", asked="call-1", value=True)
    [record] = turns("vercel-ai", said, said, end="complete")
    assert record["turn"][ANSWERED_BY] == [{"command_id": "c1", "by": "ann", "answer_id": "q", "asked": "call-1"}]
    assert STOPPED_BY not in record["turn"]
