"""The steps of an agent's turn as time: its calls of models, and the calls of tools between them. Pure.

A step: {"kind": "model" | "tool", "name", "start", "end", "status", …}, times in epoch ms, null where the wire's events
do not tell them. A model's has `first_token`, and the hash of its `request`, or null; a tool's has `tool_call_id`, and
under `steps` those of a sub-agent in a thread that it has begun.

A response ends with its last event, and its tools begin then. When a tool has answered is known only where the response
calls no other: a turn keeps when the last of several results came.

Times may contradict each other: clocks differ, and a recording that is published at once has a single time. A tool that
would end before it began has no end, and a response has no start if it would end before, or begin with another.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pipeline.turns.asides import is_aside
from pipeline.turns.partial_turns import PARTIAL, RETRACTED, with_partial
from pipeline.turns.requests import request_of
from pipeline.turns.thread_document import span
from pipeline.turns.times import epoch_ms, passed
from topics.json_text import Fields, object_of, objects
from topics.part_kinds import ANSWERS
from topics.turn_record import TurnRecord

OPEN: Final = "unanswered"
Answer = tuple[str, int | None]  # the status of a call that a later turn answers, and when; None where it answers more


def steps_of(record: TurnRecord) -> list[Fields]:
    """Return the steps of a record's turn in order, without calls beside the answer; [] where it is no agent's."""
    turn = record["turn"] or {}
    if turn.get("turn_type") != "agent":
        return []
    since, ended = span(record)  # `since`: the end of the response before, from which on the next one is timed
    start: int | None = since
    timings = iter(record.get("timings") or ())
    steps: list[Fields] = []
    called: list[Fields] = []  # the calls of the newest response
    for message in objects(with_partial(turn).get("messages")):
        at, parts = epoch_ms(message.get("timestamp")), objects(message.get("parts"))
        if message.get("message_type") == "request":
            if _answer(called, parts, at):
                start = None if at is None else max(at, since)  # some responses end behind their tools
        elif message.get("message_type") == "response" and not is_aside(message) and RETRACTED not in message:
            calls = [part for part in parts if part.get("part_kind") == "tool-call"]
            step: Fields = {"kind": "model", "name": message.get("model_name"), "start": start, "status": "complete"}
            step["request"] = request_of(message)
            if PARTIAL in message:  # with calls it was over, and its end is not known
                step |= {"first_token": None, "end": None if calls else ended}
                step["status"] = "complete" if calls else "interrupted"
            else:
                timing = next(timings, {})
                for name, measure in (("first_token", "ttft_ms"), ("end", "duration_ms")):
                    length = timing.get(measure)
                    step[name] = None if length is None else since + length
            called = [_tool(part, step["end"]) for part in calls]
            steps += [step, *called]
            since = step["end"] or at or since
            start = None if called else since
    _leave_open(steps)
    return steps


def _leave_open(steps: Sequence[Fields]) -> None:
    """Set times of a turn's steps to None that contradict others."""
    begun = Counter(step["start"] for step in steps if step["kind"] == "model")
    for step in steps:
        start, is_model = step["start"], step["kind"] == "model"
        later = [at for name in ("first_token", "end") if (at := step.get(name)) is not None]
        backwards = start is not None and any(passed(start, at) is None for at in later)
        if backwards or (is_model and begun[start] > 1):
            step["start" if is_model else "end"] = None


def late_answers(record: TurnRecord) -> dict[str, Answer]:
    """Return by the calls' ids the results with which a turn begins, and which were there when it began."""
    results: list[Fields] = []
    for message in objects((record["turn"] or {}).get("messages")):
        if message.get("message_type") == "response":
            break
        results += [part for part in objects(message.get("parts")) if part.get("part_kind") in ANSWERS]
    at = span(record)[0] if len(results) == 1 else None
    return {str(part["tool_call_id"]): (_status(part), at) for part in results if part.get("tool_call_id")}


def settle(step: Fields, answer: Answer | None) -> None:
    """Note how a tool's call is answered by a later turn, if it is."""
    if answer is not None:
        step["status"], at = answer
        step["end"] = None if passed(step["start"], at) is None else at


def nested(steps: Sequence[Fields], spawned: Mapping[str, Sequence[Fields]]) -> list[Fields]:
    """Return steps, each with those of the sub-agent that it has begun; `spawned`: by the id of the call."""
    return [
        {**step, "steps": spawned[step["tool_call_id"]]} if step.get("tool_call_id") in spawned else step
        for step in steps
    ]


def spawned_by(record: TurnRecord) -> str | None:
    """Return the id of the call that began a sub-agent's thread, as its record says; None where it says none."""
    links = (link for link in objects(record.get("links")) if link.get("relation") == "spawned_from")
    names = (object_of(link.get("metadata")).get("tool_call_id") for link in links)
    return next((name for name in names if isinstance(name, str)), None)


def _tool(part: Fields, start: int | None) -> Fields:
    step = {"kind": "tool", "name": part.get("tool_name"), "start": start, "end": None, "status": OPEN}
    return {**step, "tool_call_id": part.get("tool_call_id")}


def _answer(called: Sequence[Fields], parts: Sequence[Fields], at: int | None) -> bool:
    """Note which calls these parts answer, the last of them at the time `at`; return whether they answer any."""
    answers = {part.get("tool_call_id"): part for part in parts if part.get("part_kind") in ANSWERS}
    answered = [step for step in called if step["tool_call_id"] in answers]
    for step in answered:
        step["status"] = _status(answers[step["tool_call_id"]])
        step["end"] = at if len(called) == 1 else None
    return bool(answered)


def _status(part: Fields) -> str:
    return "retry" if part["part_kind"] == "retry-prompt" else str(part.get("status", "success"))
