"""Restores the answers of a stored turn in their provider's form: whole, and as the events of a stream. Pure.

The content of a stream is restored; its division into events, and its ids of items, are not. The wire's `meta:*` keys
contain the fields that ThreadProtocol lacks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipeline.dialects.anthropic import rebuilt as anthropic
from pipeline.dialects.gemini import rebuilt as gemini
from pipeline.dialects.model_calls import REQUEST
from pipeline.dialects.openai_chat import rebuilt as openai_chat
from pipeline.dialects.openai_responses import rebuilt as openai_responses
from pipeline.turns.asides import is_aside
from topics.json_text import Fields
from turnmill.capture.providers import CHAT, GENERATE, MESSAGES, RESPONSES
from turnmill.wire.registry import WIRES

OWN_EVENT: Final = "data-app-"  # prefix of the names of events that the wire's reader does not know


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The writers of a wire. `whole`: a response, and the system messages beside it -> the body of the answer.

    `stream`: such a body -> the events of a stream; with `counted`, the client has requested its usage.
    """

    whole: Callable[[Fields, Sequence[Fields]], Fields]
    stream: Callable[[Fields, bool], Iterator[Fields]]


WRITERS: Final[Mapping[str, Rebuilt]] = {
    CHAT: Rebuilt(openai_chat.whole, lambda body, counted: openai_chat.chunks(body, counted=counted)),
    RESPONSES: Rebuilt(openai_responses.whole, lambda body, counted: openai_responses.events(body)),
    MESSAGES: Rebuilt(anthropic.whole, lambda body, counted: anthropic.events(body)),
    GENERATE: Rebuilt(gemini.whole, lambda body, counted: gemini.pieces_of(body)),
}


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer in a turn. `index`: that of its message in the turn. `response`: None if the call failed.

    `beside`: the system messages that came with it. `error`: the provider's, with what came beside it, such as the
    request's id. `status`: its HTTP status, if it is known.
    """

    index: int
    response: Fields | None
    beside: Sequence[Fields] = ()
    error: Fields = field(default_factory=dict)
    status: int | None = None


def answers(turn: Fields) -> list[Answered]:
    """Return the answers in an agent turn, in their order."""
    answers: list[Answered] = []
    before: list[Fields] = []
    for index, message in enumerate(turn.get("messages", ())):
        kind = message.get("message_type")
        if is_aside(message):
            continue
        if kind == "response":
            answers.append(Answered(index, message, before))
            before = []
        elif kind == "system" and message["event_type"] == "error":
            data = message["event_data"]
            error = {"error": None, **data} if isinstance(data, dict) else {"error": data}
            answers.append(Answered(index, None, before, error, error.pop("status", None)))
            before = []
        elif kind == "system" and answers and answers[-1].response is not None:
            answers[-1] = Answered(answers[-1].index, answers[-1].response, [*answers[-1].beside, message])
        elif kind == "system":
            before.append(message)
    return answers


def body_of(dialect: str, answer: Answered) -> Fields:
    """Return the body of an answer, or of a refusal, as in its provider's API."""
    if answer.response is None:
        return answer.error | ({"type": "error"} if dialect in (MESSAGES, RESPONSES) else {})
    return WRITERS[dialect].whole(answer.response, answer.beside)


def own_events(dialect: str, answer: Answered) -> list[Fields]:
    """Return the events beside an answer that the wire's reader does not know, unchanged."""
    kind = WIRES[dialect].kind
    unknown = [message for message in answer.beside if message["event_type"].startswith(OWN_EVENT)]
    return [{kind: message["event_type"].removeprefix(OWN_EVENT), **message["event_data"]} for message in unknown]


def events_of(dialect: str, body: Fields, extra: Sequence[Fields] = (), *, counted: bool = True) -> list[Fields]:
    """Return the events of a stream with the content of a whole answer. `extra`: of `own_events`."""
    if "error" in body and body["error"] is not None and not body.keys() & {"choices", "output", "candidates"}:
        return [*extra, body]
    first, *rest = WRITERS[dialect].stream(body, counted)
    return [first, *extra, *rest]


def segments(dialect: str, events: Sequence[Fields]) -> list[list[Fields]]:
    """Return the events of each call of a run, beginning with its request if there is one."""
    kind, streams = WIRES[dialect].kind, list[list[Fields]]()
    for event in events:
        if event.get(kind) == REQUEST or not streams:
            streams.append([])
        streams[-1].append(event)
    return streams
