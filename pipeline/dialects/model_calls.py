"""Runs of several model calls, for wires whose stream is one call of a model (`openai-chat` and its like).

    {"type": "turnmill.request", "request": BODY}          before a call's events: the request to the model
    {"type": "turnmill.error", "status": 429, "body": …}   instead of them: the server refused

A body repeats the whole history. Its new messages (results of tools, the user's messages) are the request after the
previous response. The user's messages in the first body are the user turn. The rest of a body, such as a system prompt
and definitions of tools, is kept with the response to it (`pipeline.turns.requests`); what a body leaves out since the
server keeps it is that of the call before, or is in the event's `kept`: these members, and `calls`, tools by the ids of
calls. If a call broke off and another one has the same messages, it was retried: the first call's output is not in the
conversation, but taken back, and the tokens that it told are those of a response beside the answer. If the other has
other messages, what the first had shown is in `meta:partial` of the turn, as if it had been interrupted.

Without any such event the stream is one call, and `run.request` its body.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.assembly.agent_turn import partial
from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.asked_parts import retract, withdraw, write
from pipeline.turns import requests
from pipeline.turns.lineage import History
from pipeline.turns.partial_turns import PARTIAL
from pipeline.turns.text import join
from topics import json_text
from topics.json_text import Fields, object_of

REQUEST: Final = "turnmill.request"
RETRY: Final = "retry"  # the purpose of an attempt that broke off, and was made again
REFUSED: Final = "refused"  # the purpose of an answer that the model refused, and its client left out
ERROR: Final = "turnmill.error"
OUTPUT: Final = "meta:output"  # of a response beside the answer: its parts
WENT_AWAY: Final = frozenset({"complete", "disconnected", "timeout"})  # ends that don't contradict a good end
MAX_ERROR_CHARACTERS: Final = 1_000  # of an error that is not a text


@dataclass(frozen=True, slots=True)
class RequestReader:
    """The reader of a wire's request bodies; bodies may be any JSON, and its functions raise nothing.

    `items`: the messages of a body. `is_own`: whether a message is the model's. `parts`: those of any other message, as
    `user-prompt`, `file`, or `tool-return` with the id of its call; none for configuration. `names`: tools by the ids
    of the calls in one of the model's messages. `continues`: the response that this call continues, if the server keeps
    the history. `kept`: the members of a body that the server keeps then, too. `purpose`: of a call beside the
    conversation. `said`: a message without what a program wrote in the user's name.
    """

    items: Callable[[Any], list[Fields]]
    is_own: Callable[[Fields], bool]
    parts: Callable[[Fields], list[Fields]]
    names: Callable[[Fields], dict[str, str]] = lambda item: {}
    continues: Callable[[Any], str | None] = lambda body: None
    kept: Sequence[str] = ()
    purpose: Callable[[Any], str | None] = lambda body: None
    said: Callable[[Fields], Fields] = lambda item: item

    def history(self, body: Any) -> History:
        """Return the conversation that a request repeats."""
        beside = self.purpose(body) is not None
        return History([self.said(item) for item in self.items(body)], follows=self.continues(body), beside=beside)


@dataclass(slots=True, eq=False)
class Calls:
    """The calls of a run so far. All fields except `reader` and `settle` are about the newest one.

    `settle`: completes the wire's `answer` when its call is over; calling it again changes nothing. `before`: `items`
    and `continues` of the call before. `refused`: its model has refused; the SDK may leave it out of what follows.
    `answer`: the wire's state of the call. `whole`: it ended well. `shut`: later events belong to no call. `awaits`: it
    is whole, and calls tools of the application, so that the run may continue. `lane`: the name of these calls, where a
    wire has several side by side.
    """

    reader: RequestReader
    settle: Callable[[Builder], None]
    items: list[Fields] | None = None
    continues: str | None = None
    before: tuple[list[Fields] | None, str | None] = (None, None)
    refused: bool = False
    asked: Fields | None = None  # its body without the messages
    purpose: str | None = None
    answer: Any = None
    response: Message | None = None
    whole: bool = False
    shut: bool = False
    awaits: bool = False
    lane: str | None = None


def begin(builder: Builder, reader: RequestReader, settle: Callable[[Builder], None] | None = None) -> None:
    """Begin a run without calls. The body of the first comes as an event, or is the publisher's `run.request`."""
    builder.returns_by_call = False  # results are in the order of the bodies
    builder.scratch["calls"] = Calls(reader, settle or settle_newest)
    builder.torn = False


def calls_of(builder: Builder) -> Calls:
    """Return the run's calls."""
    calls: Calls = builder.scratch["calls"]
    return calls


def request(builder: Builder, event: Fields) -> None:
    """Handle `turnmill.request`: a call begins, and the previous one is over."""
    body, kept = event["request"], event.get("kept")
    calls_of(builder).settle(builder)
    ask(builder, body, kept if isinstance(kept, dict) else None)


def ask(builder: Builder, body: Any, kept: Fields | None = None) -> None:
    """Add the new messages in the body of a call that begins. The previous call is settled."""
    calls = calls_of(builder)
    items, continues = calls.reader.items(body), calls.reader.continues(body)
    calls.purpose = calls.reader.purpose(body)
    if calls.refused and continues is None and not _holds(calls, items):
        take_back(builder)
    again = items == calls.items and continues == calls.continues
    if again and not calls.whole and calls.response is not None:
        retract(builder, [(each, each.parts) for each in builder.messages if each is calls.response])
        withdraw(builder, calls.response)
        builder.bill(RETRY, calls.response.fields)
    new = [part for item in _new(calls, items, continues) for part in calls.reader.parts(item)]
    opening = calls.items is None
    if builder.context.request is None:
        builder.context.request = body  # needed to find the run's thread
    told = object_of((kept or {}).get("calls"))
    names = {call_id: name for call_id, name in told.items() if isinstance(name, str)}
    for item in items:
        if calls.reader.is_own(item):
            names |= calls.reader.names(item)
    calls.before = calls.items, calls.continues
    if calls.purpose is None:
        write(builder, new, opening=opening, names=names)
    if calls.purpose is None or opening:
        calls.items, calls.continues = items, continues
    asked = requests.without_messages(body, builder.context.dialect, calls.asked)
    if continues is not None:
        before = kept if kept is not None else calls.asked or {}
        asked = {**{name: before[name] for name in calls.reader.kept if name in before}, **(asked or {})}
    calls.asked = asked
    next_call(builder)


def next_call(builder: Builder) -> None:
    """Begin another call: the state of the previous one is cleared. What it had shown, if it broke off, is kept."""
    calls = calls_of(builder)
    if calls.response is not None and not calls.whole:
        keep_shown(builder, calls.response)
    calls.answer = calls.response = None
    calls.whole = calls.shut = calls.awaits = calls.refused = False
    builder.ended, builder.error_text = None, None
    builder.response = None  # not closed: a response that broke off stays open
    builder.torn = False


def open_response(builder: Builder) -> Message:
    """Return the response of the newest call; in a stream without requests, `run.request` is its body."""
    calls = calls_of(builder)
    if calls.response is None:
        ask_first(builder)
        fields = {} if calls.asked is None else {requests.REQUEST: calls.asked}
        if calls.purpose is None:
            calls.response = builder.open_response(**fields)
        else:
            calls.response = builder.beside(calls.purpose)
            calls.response.fields |= fields
    return calls.response


def ask_first(builder: Builder) -> None:
    """Use `run.request` as the body of the first call, if no event had one."""
    if calls_of(builder).items is None:
        ask(builder, builder.context.request)


def end_call(builder: Builder, *, awaits: bool) -> None:
    """End the newest call well. `awaits`: results of tools will follow, so the run may continue."""
    calls = calls_of(builder)
    calls.whole, calls.awaits = True, awaits
    builder.ended = None if awaits else "complete"


def fail(builder: Builder, error: Any, **about: Any) -> None:
    """Fail the newest call, and the run with it, unless another call follows. `about`: the event's other facts."""
    ask_first(builder)
    calls = calls_of(builder)
    calls.whole = calls.awaits = False
    builder.ended = "error"
    builder.error_text = _message_of(error)
    builder.system("error", {**about, "error": error})


def refused(builder: Builder, event: Fields) -> None:
    """Handle `turnmill.error`: an HTTP status in place of a stream."""
    body = event.get("body")
    error = body.get("error") or body if isinstance(body, dict) else body
    about = identified(body) if isinstance(body, dict) and error is not body else {}
    fail(builder, error, **({"status": event["status"]} if "status" in event else {}), **about)
    calls_of(builder).shut = True


def identified(failed: Fields) -> Fields:
    """Return the id by which a provider finds the call that it refused."""
    return {"request_id": failed["request_id"]} if failed.get("request_id") else {}


def settle_newest(builder: Builder) -> None:
    """Settle the newest call."""
    settle_answer(builder, calls_of(builder).answer)


def settle_answer(builder: Builder, answer: Any) -> bool:
    """Settle the answer of the newest call, and register its calls if it is whole; return False if it was settled."""
    if answer is None or answer.settled:
        return False
    whole = calls_of(builder).whole and not builder.torn
    answer.settle(whole=whole)
    if calls_of(builder).purpose is not None:
        answer.response.fields[OUTPUT] = [_shown(part) for part in answer.response.parts]
        return True
    for part in answer.calls() if whole else ():
        builder.calls[part.fields["tool_call_id"]] = (answer.response, part)
    return True


def finish(builder: Builder, end: str) -> None:
    """Set the end before the turn is built: a call that ended well completes it, the publisher's `end` does not."""
    ask_first(builder)
    calls_of(builder).settle(builder)
    if end in WENT_AWAY and calls_of(builder).whole:
        builder.end_turn("complete")
    elif end == "complete":
        builder.end_turn("disconnected")


def take_back(builder: Builder) -> None:
    """Take the newest call out of the run: it is kept under RETRACTED, and its tokens beside the answer."""
    calls = calls_of(builder)
    response, opening = calls.response, calls.before[0] is None
    if response is None:
        return
    withdraw(builder, response)
    taken = [response]
    answered = builder.last_response()
    if opening:
        builder.user_turns.clear()
    elif answered is not None and (request := answered.request) is not None:
        withdraw(builder, request)
        answered.request, taken = None, [request, response]
    retract(builder, [(message, message.parts) for message in taken])
    builder.bill(REFUSED, response.fields)
    calls.items, calls.continues = calls.before
    calls.response = None


def keep_shown(builder: Builder, response: Message) -> None:
    """Keep what a response had shown that broke off, beside the turn, though the run goes on without it."""
    if any(message is response for message in builder.messages):
        shown = partial(builder.context.agent_id, [(response, response.parts)], {id(response)})
        before = builder.notes.get(PARTIAL, {"messages": []})
        if shown is not None:
            builder.notes[PARTIAL] = {"messages": before["messages"] + shown["messages"]}


def _shown(part: Part) -> Fields:
    text = join(part.chunks)
    return {**part.fields, "content": text} if text else part.fields


def _holds(calls: Calls, items: list[Fields]) -> bool:
    """Return True if these messages have an answer behind those of the newest call."""
    asked = (calls.items or [])[-1:]
    known = next((index for index in range(len(items), 0, -1) if items[index - 1 : index] == asked), len(items))
    return any(calls.reader.is_own(item) for item in items[known:])


def _new(calls: Calls, items: list[Fields], continues: str | None) -> list[Fields]:
    """Return the messages that no earlier call of the run had, without the model's."""
    before, is_own = calls.items, calls.reader.is_own
    if continues is not None:  # the server keeps the history
        again = items == before and continues == calls.continues and not calls.whole
        return [] if again else [item for item in items if not is_own(item)]
    if before is not None and items[: len(before)] == before:
        return [item for item in items[len(before) :] if not is_own(item)]
    answers = [index for index, item in enumerate(items) if is_own(item)]
    new = items[answers[-1] + 1 :] if answers else items
    if before is not None and (not calls.whole or not answers):  # sent before, and not answered since
        return [item for item in new if item not in before]
    return new


def _message_of(error: Any) -> str:
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return error if isinstance(error, str) else json_text.dumps(error)[:MAX_ERROR_CHARACTERS]
