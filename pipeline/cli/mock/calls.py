"""The calls of a thread to its models: each request and its answer, as it was sent or rebuilt. Pure.

A request is rebuilt from the store, which has it whole and redacted. An answer consists of the run's own events, if
they are available and agree with the store; otherwise, as when redaction changed the turn, it is rebuilt from the turn.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Final

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.dialects.asked_again import HISTORY, request_again
from pipeline.dialects.gemini.request import MADE_UP
from pipeline.dialects.model_calls import ERROR
from pipeline.dialects.rebuilt_answers import Answered, answers, body_of, events_of, own_events, segments
from pipeline.turns.requests import request_of
from topics.json_text import Fields
from topics.turn_record import TurnRecord
from turnmill.capture.providers import CHAT, GENERATE, MESSAGES
from turnmill.errors import CallerError
from turnmill.wire.registry import WIRES, box

VERSION: Final = 1  # of a fixture
DONE: Final = box("[DONE]")
LEFT_OUT: Final = "turnmill.left_out"  # a capture could not keep a part of the answer
OWN_PREFIX: Final = "turnmill."  # prefix of the types of our own events, which no provider sends
BROKEN: Final = 500  # the status of a failure of unknown status, if the client asks for a whole answer

Timed = tuple[int, Any]  # milliseconds since the request, and the event


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in either form. `breaks`: the connection breaks after it."""

    events: Sequence[Timed]
    recorded: bool = False
    status: int = 200
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A request that a run made, and its answer, whole and as a stream.

    `settings`: False if only the messages of the request are known, as of a call without an answer.
    """

    dialect: str
    run: str
    request: Fields
    settings: bool
    whole: Reply
    stream: Reply


def calls_of(document: Fields, records: Mapping[str, TurnRecord], bodies: Mapping[str, Fields]) -> list[Call]:
    """Return the calls of a thread, in the order of its turns, with rebuilt answers.

    `records`: those of its turns, by turn id. `bodies`: those of the requests that they name.
    """
    calls: list[Call] = []
    for turn in document["turns"]:
        record = records.get(turn.get("meta:turn_id", ""))
        if turn.get("turn_type") == "agent" and record is not None and record["dialect"] in HISTORY:
            calls += _of_turn(document, turn, record, bodies)
    return calls


def _of_turn(document: Fields, turn: Fields, record: TurnRecord, bodies: Mapping[str, Fields]) -> Iterator[Call]:
    dialect, turn_answers = record["dialect"], answers(turn)
    for number, answer in enumerate(turn_answers):
        responses = (later.response for later in turn_answers[number:])
        later = next((response for response in responses if response is not None), None)
        asked = bodies.get(request_of(later or {}) or "")
        request = request_again(document, turn, answer.index, asked or {}, dialect)
        if dialect == GENERATE:
            request = _without_made_up(request)
        whole, stream = _rebuilt(dialect, answer)
        yield Call(dialect, record["run_id"], request, asked is not None, whole, stream)


def _rebuilt(dialect: str, answer: Answered) -> tuple[Reply, Reply]:
    body = body_of(dialect, answer)
    if answer.status is not None:
        refused = Reply([(0, body)], status=answer.status)
        return refused, refused
    whole = Reply([(0, body)], status=200 if answer.response is not None else BROKEN)
    return whole, Reply(streamed(dialect, body, own_events(dialect, answer)))


def streamed(dialect: str, body: Fields, provider_events: Sequence[Fields] = ()) -> list[Timed]:
    """Return the events of a stream with the content of a whole answer."""
    ends = [(0, DONE)] if dialect == CHAT else []
    return [*((0, event) for event in events_of(dialect, body, provider_events)), *ends]


def as_recorded(
    calls: Sequence[Call],
    hashes: Collection[str | None],
    runs: Mapping[str, list[Fields]],
    redacted: Callable[[Any], Any],
) -> list[Call]:
    """Return the calls, with the events of their runs where these agree with the store.

    `hashes`: of the stored turns. `runs`: the envelopes of each run. `redacted`: applied to each event.
    """
    merged: list[Call] = []
    for run in dict.fromkeys(call.run for call in calls):
        of_run, envelopes = [call for call in calls if call.run == run], runs.get(run, [])
        turns, _ = assemble(DIALECTS[of_run[0].dialect], envelopes)
        agent_hashes = [turn["hash"] for turn in turns if turn["turn"] and turn["turn"]["turn_type"] == "agent"]
        same = bool(agent_hashes) and all(agent_hash in hashes for agent_hash in agent_hashes)
        merged += _of_run(of_run, [(at, redacted(event)) for at, event in _timed(envelopes)]) if same else of_run
    return merged


def _of_run(calls: list[Call], times: list[Timed]) -> list[Call]:
    dialect = calls[0].dialect
    per_call = segments(dialect, [event for _, event in times])
    if len(per_call) != len(calls):
        return calls
    rest = iter(times)
    pairs = zip(calls, per_call, strict=True)
    return [_with_events(call, list(islice(rest, len(events)))) for call, events in pairs]


def _timed(envelopes: Sequence[Fields]) -> list[Timed]:
    """Return the events of a run in their order, each once, with their times."""
    by_seq: dict[int, Timed] = {}
    for envelope in envelopes:
        for number, event in enumerate(envelope["events"]):
            at = envelope["ts"] + (envelope.get("dt") or {number: 0})[number]
            by_seq.setdefault(envelope["seq"] + number, (at, event))
    return [by_seq[seq] for seq in sorted(by_seq)]


def _with_events(call: Call, events: Sequence[Timed]) -> Call:
    kind, begin = WIRES[call.dialect].kind, events[0][0]
    heard = [(max(0, at - begin), event) for at, event in events if not str(event.get(kind)).startswith(OWN_PREFIX)]
    failures = [event for _, event in events if event.get(kind) == ERROR]
    left_out = any(event.get(kind) == LEFT_OUT for _, event in events)
    if left_out or not (heard or failures):
        return call
    if failures and "status" in failures[0] and not heard:
        refused = Reply([(0, failures[0].get("body"))], recorded=True, status=failures[0]["status"])
        return replace(call, whole=refused, stream=refused)
    if len(heard) == 1 and _is_whole(call.dialect, heard[0][1]):
        stream = Reply(heard, recorded=True) if call.dialect == GENERATE else Reply(streamed(call.dialect, heard[0][1]))
        return replace(call, whole=Reply(heard, recorded=True), stream=stream)
    return replace(call, stream=Reply(heard, recorded=True, breaks=bool(failures)))


def _is_whole(dialect: str, event: Fields) -> bool:
    """Return True for an answer that was not streamed; for Gemini, also for a stream of one piece."""
    if dialect == GENERATE:
        return "candidates" in event
    name = {CHAT: "chat.completion", MESSAGES: "message"}.get(dialect, "response")
    return name in (event.get("object"), event.get("type"))


def _without_made_up(request: Fields) -> Fields:
    """Return a request to Gemini without the ids that Turnmill made up for tool calls."""

    def value_of(value: Any) -> Any:
        made_up = isinstance(value, dict) and str(value.get("id")).startswith(MADE_UP)
        return {k: v for k, v in value.items() if k != "id"} if made_up else value

    def parts_of(content: Fields) -> list[Fields]:
        return [{name: value_of(value) for name, value in part.items()} for part in content["parts"]]

    return {**request, "contents": [{**content, "parts": parts_of(content)} for content in request["contents"]]}


def frozen(calls: Sequence[Call]) -> str:
    """Return a fixture: JSON, one call per line."""
    lines = ",\n".join(json.dumps(asdict(call), ensure_ascii=False) for call in calls)
    return f'{{"turnmill_mock": {VERSION}, "calls": [\n{lines}\n]}}\n'


def thawed(text: str, name: str) -> list[Call]:
    """Return the calls of a fixture. Raises CallerError."""
    try:
        fixture = json.loads(text)
        if fixture["turnmill_mock"] != VERSION:
            raise ValueError(f"version {fixture['turnmill_mock']} is not known")
        calls = fixture["calls"]
        return [Call(**{**c, "whole": Reply(**c["whole"]), "stream": Reply(**c["stream"])}) for c in calls]
    except (ValueError, KeyError, TypeError) as error:
        raise CallerError(f"{name} is no fixture of `turnmill mock --freeze`: {error}") from None
