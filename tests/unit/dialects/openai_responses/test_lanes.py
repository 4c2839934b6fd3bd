"""Responses over a WebSocket, as openai 3.57 reads them: several lanes, and answers that are steered."""

from collections.abc import Iterator
from itertools import chain, zip_longest

import pytest

from tests.support.assembled import Assembled, assembled
from topics.json_text import Fields


def response(name: str, status: str, *output: Fields, **more: object) -> Fields:
    usage = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
    return {"id": name, "object": "response", "status": status, "output": list(output), "usage": usage, **more}


def message(name: str, words: str) -> Fields:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed", "content": content}


def spoken(name: str, *words: str, lane: str | None = None, end: Fields | None = None) -> Iterator[Fields]:
    in_lane = {} if lane is None else {"stream_id": lane}
    of = {"item_id": f"msg_{name}", "output_index": 0, "content_index": 0}
    whole = message(name, "".join(words))
    yield {"type": "response.created", "response": response(name, "in_progress"), **in_lane}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**whole, "content": []}, **in_lane}
    for word in words:
        yield {"type": "response.output_text.delta", **of, "delta": word, **in_lane}
    yield {"type": "response.output_item.done", "output_index": 0, "item": whole, **in_lane}
    ended = {"type": "response.completed", "response": response(name, "completed", whole)}
    yield {**(end or ended), **in_lane}


def woven(*lanes: Iterator[Fields]) -> list[Fields]:
    return [event for event in chain.from_iterable(zip_longest(*lanes)) if event is not None]


def run(*events: Fields, **rest: object) -> Assembled:
    return assembled("openai-responses", list(events), **rest)


def said(got: Assembled) -> list[str]:
    return [part["content"] for part in got.parts("response")]


@pytest.mark.parametrize("lanes", [("a", "b"), (None, "b"), ("a", None)])
def test_both_answers_are_kept(lanes: tuple[str | None, str | None]) -> None:
    one, two = lanes
    got = run(*woven(spoken("r1", "One ", "two ", lane=one), spoken("r2", "Eins ", lane=two)), end="complete")
    assert (said(got), got.refused) == (["One two ", "Eins "], [])
    (turn,) = got.agent_turns
    assert (turn["completion_status"], turn["total_usage"]["total_tokens"]) == ("complete", 60)


def test_pieces_of_items_with_the_same_index_are_told_apart() -> None:
    events = [
        {key: value for key, value in event.items() if key != "item_id"}
        for event in woven(spoken("r1", "One ", "two ", lane="a"), spoken("r2", "Eins ", "zwei ", lane="b"))
        if event["type"] in ("response.created", "response.output_item.added", "response.output_text.delta")
    ]
    got = run(*events, end="complete")
    assert got.agent_turns[0]["completion_status"] == "interrupted"
    shown = got.agent_turns[0]["meta:partial"]["messages"]
    assert [part["content"] for each in shown for part in each["parts"]] == ["One two ", "Eins zwei "]


def test_a_lane_that_breaks_off_interrupts_the_run() -> None:
    broken = list(spoken("r1", "One ", "two ", lane="a"))[:-1]
    got = run(*woven(iter(broken), spoken("r2", "Eins ", lane="b")), end="complete")
    assert got.agent_turns[0]["completion_status"] == "interrupted"
    assert said(got) == ["Eins "]


def test_responses_of_a_lane_follow_each_other() -> None:
    got = run(*spoken("r1", "One.", lane="a"), *spoken("r2", "Two.", lane="a"), end="complete")
    assert (said(got), got.refused) == (["One.", "Two."], [])


@pytest.mark.parametrize("lane", [None, "a"])
def test_a_steered_answer_and_its_successor(lane: str | None) -> None:
    cut = response("r1", "incomplete", message("r1", "Half "), incomplete_details={"reason": "steered"})
    steered = [*spoken("r1", "Half ", lane=lane, end={"type": "response.incomplete", "response": cut})]
    accepted = {"type": "response.steer.accepted", "steer": {"id": "st_1", "previous_response_id": "r1"}}
    got = run(*steered, accepted, *spoken("r2", "Steered.", lane=lane), end="complete")
    assert (said(got), got.refused) == (["Half ", "Steered."], [])
    assert got.agent_turns[0]["completion_status"] == "complete"
    alone = run(*steered, end="complete")
    assert (said(alone), alone.agent_turns[0]["completion_status"]) == (["Half "], "complete")
