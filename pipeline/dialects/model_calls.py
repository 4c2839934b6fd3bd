"""Runs of several model calls, for wires whose stream is one call of a model (`openai-chat` and its like).

    {"type": "turnmill.request", "request": BODY}          before a call's events: the request to the model
    {"type": "turnmill.error", "status": 429, "body": …}   instead of them: the server refused

A body repeats the whole history. Its new messages (results of tools, the user's messages) are the request after the
previous response. The user's messages in the first body are the user turn. The rest of a body, such as a system prompt
and definitions of tools, is kept with the response to it (`pipeline.turns.requests`). If a call broke off and another
one has the same messages, it was retried: the first call's output is not in the conversation, and the tokens that it
told are those of a response beside the answer. If another one has other messages, what the first had shown is in
`meta:partial` of the turn, as if it had been interrupted.

Without any such event the stream is one call, and `run.request` its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.assembly.agent_turn import partial
from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part, awaiting
from pipeline.turns import requests, tokens
from pipeline.turns.lineage import History
from pipeline.turns.partial_turns import PARTIAL
from topics import json_text
from topics.json_text import Fields

REQUEST: Final = "turnmill.request"
RETRY: Final = "retry"  # the purpose of an attempt that broke off, and was made again
ERROR: Final = "turnmill.error"
WENT_AWAY: Final = frozenset({"complete", "disconnected", "timeout"})  # ends that don't contradict a good end
MAX_ERROR_CHARACTERS: Final = 1_000  # of an error that is not a text


@dataclass(frozen=True, slots=True)
class RequestReader:
    """The reader of a wire's request bodies; bodies may be any JSON, and its functions raise nothing.

    `items`: the messages of a body. `is_own`: whether a message is the model's. `parts`: those of any other message, as
    `user-prompt`, `file`, or `tool-return` with the id of its call; none for configuration. `names`: tools by the ids
    of the calls in one of the model's messages. `continues`: the response that this call continues, if the server keeps
    the history.
    """

    items: Callable[[Any], list[Fields]]
    is_own: Callable[[Fields], bool]
    parts: Callable[[Fields], list[Fields]]
    names: Callable[[Fields], dict[str, str]] = lambda item: {}
    continues: Callable[[Any], str | None] = lambda body: None

    def history(self, body: Any) -> History:
        """Return the conversation that a request repeats."""
        return History(self.items(body), follows=self.continues(body))


@dataclass(slots=True, eq=False)
class Calls:
    """The calls of a run so far. All fields except `reader` and `settle` are about the newest one.

    `settle`: completes the wire's `answer` when its call is over; calling it again changes nothing. `answer`: the
    wire's state of the call. `whole`: it ended well. `shut`: later events belong to no call. `awaits`: it is whole,
    and calls tools of the application, so that the run may continue.
    """

    reader: RequestReader
    settle: Callable[[Builder], None]
    items: list[Fields] | None = None
    continues: str | None = None
    asked: Fields | None = None  # its body without the messages
    answer: Any = None
    response: Message | None = None
    whole: bool = False
    shut: bool = False
    awaits: bool = False


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
    body = event["request"]
    calls_of(builder).settle(builder)
    ask(builder, body)


def ask(builder: Builder, body: Any) -> None:
    """Add the new messages in the body of a call that begins. The previous call is settled."""
    calls = calls_of(builder)
    items, continues = calls.reader.items(body), calls.reader.continues(body)
    again = items == calls.items and continues == calls.continues
    if again and not calls.whole and calls.response is not None:
        withdraw(builder, calls.response)
    new = [part for item in _new(calls, items, continues) for part in calls.reader.parts(item)]
    opening = calls.items is None
    if builder.context.request is None:
        builder.context.request = body  # needed to find the run's thread
    names = [calls.reader.names(item) for item in items if calls.reader.is_own(item)]
    write(builder, new, opening=opening, names=dict(pair for tools in names for pair in tools.items()))
    calls.items, calls.continues = items, continues
    calls.asked = requests.without_messages(body, builder.context.dialect, calls.asked)
    next_call(builder)


def next_call(builder: Builder) -> None:
    """Begin another call: the state of the previous one is cleared. What it had shown, if it broke off, is kept."""
    calls = calls_of(builder)
    if calls.response is not None and not calls.whole:
        keep_shown(builder, calls.response)
    calls.answer = calls.response = None
    calls.whole = calls.shut = calls.awaits = False
    builder.ended, builder.error_text = None, None
    builder.response = None  # not closed: a response that broke off stays open
    builder.torn = False


def open_response(builder: Builder) -> Message:
    """Return the response of the newest call; in a stream without requests, `run.request` is its body."""
    calls = calls_of(builder)
    if calls.response is None:
        ask_first(builder)
        calls.response = builder.open_response(**({} if calls.asked is None else {requests.REQUEST: calls.asked}))
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
    fail(builder, error, **({"status": event["status"]} if "status" in event else {}))
    calls_of(builder).shut = True


def settle_newest(builder: Builder) -> None:
    """Settle the newest call."""
    settle_answer(builder, calls_of(builder).answer)


def settle_answer(builder: Builder, answer: Any) -> bool:
    """Settle the answer of the newest call, and register its calls if it is whole; return False if it was settled."""
    if answer is None or answer.settled:
        return False
    whole = calls_of(builder).whole and not builder.torn
    answer.settle(whole=whole)
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


def write(
    builder: Builder, parts: Sequence[Fields], *, opening: bool = False, names: Mapping[str, str] | None = None
) -> None:
    """Add the user's messages and results of tools to the run.

    `opening`: they come before the run's first response. Messages are the user turn then, and results those of calls
    that an earlier run made: `names` has their tools.
    """
    words = [part for part in parts if part["part_kind"] in ("user-prompt", "file")]
    if opening and words:
        builder.user_turn(_prompts(words))
    results = [part for part in parts if part not in words]
    if opening and results:
        named = [_with_tool_name(part, names or {}) for part in results]
        builder.messages.append(Message("request", builder.at, [Part(part, done=True) for part in named], closed=True))
    for part in () if opening else parts:
        if part["part_kind"] == "tool-return":
            _answer(builder, part, (names or {}).get(part["tool_call_id"], ""))
        else:
            builder.request_after(None).parts.append(Part(part, done=True))


def _with_tool_name(part: Fields, names: Mapping[str, str]) -> Fields:
    if "tool_call_id" not in part:
        return part
    return {**part, "tool_name": names.get(part["tool_call_id"]) or part.get("tool_name", "")}


def _prompts(words: list[Fields]) -> list[Fields]:
    """Return prompts; if files are among the parts, all of them as one prompt."""
    if all(part["part_kind"] == "user-prompt" for part in words):
        return words
    content: list[Any] = []
    for part in words:
        content += part["content"] if isinstance(part["content"], list) else [part["content"]]
    return [{"part_kind": "user-prompt", "content": content}]


def keep_shown(builder: Builder, response: Message) -> None:
    """Keep what a response had shown that broke off, beside the turn, though the run goes on without it."""
    if any(message is response for message in builder.messages):
        shown = partial(builder.context.agent_id, [(response, response.parts)], {id(response)})
        before = builder.notes.get(PARTIAL, {"messages": []})
        if shown is not None:
            builder.notes[PARTIAL] = {"messages": before["messages"] + shown["messages"]}


def withdraw(builder: Builder, response: Message) -> None:
    """Take a response out of the run; what it is known to have used is billed."""
    fields = response.fields
    if any(tokens.counts(fields.get("usage")).values()):
        names = fields.get("model_name"), fields.get("provider_name")
        builder.beside(RETRY, fields["usage"], model=names[0], provider=names[1])
    builder.messages = [message for message in builder.messages if message is not response]
    builder.calls = {
        part.fields["tool_call_id"]: (message, part)
        for message in builder.messages
        if message.kind == "response"
        for part in message.parts
        if part.done and "args" in part.fields
    }


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


def _answer(builder: Builder, part: Fields, name: str) -> None:
    """Put a result after the response with its call; if its id is unknown, give it to the oldest call without an id.

    If an earlier call has the id, a call without one may still be meant, if the id is the name of its function. `name`:
    of the tool, for a result without any call, which is put after the newest response.
    """
    call_id = part["tool_call_id"]
    others = (other.fields for message in builder.messages for other in message.parts)
    if any(part["part_kind"] == "builtin-tool-return" and part["tool_call_id"] == call_id for part in others):
        return  # the server ran the tool, and the repeated history contains its result
    response = builder.last_response()
    if response is not None:
        known = call_id in builder.calls
        nameless = (call for call in response.parts if call.done and call.fields.get("tool_call_id") == "")
        call = next((call for call in nameless if not known or call.fields["tool_name"] == call_id), None)
        if call is not None:
            call.fields["tool_call_id"] = call_id
            builder.calls[call_id] = (response, call)
    if call_id not in builder.calls:
        named = {**part, "tool_name": name or part.get("tool_name", "")}
        builder.request_after(None).parts.append(Part(named, done=True))
        return
    holder = builder.calls[call_id][0]
    twin = awaiting(holder, holder.request, call_id)
    if twin is not None:
        answer = Part({**part, "tool_name": twin.fields["tool_name"]}, done=True)
        builder.request_after(holder).parts.append(answer)
        return
    beside = {key: value for key, value in part.items() if key.startswith("meta:")}
    builder.tool_return(call_id, status=part["status"], content=part["content"], **beside)


def _message_of(error: Any) -> str:
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return error if isinstance(error, str) else json_text.dumps(error)[:MAX_ERROR_CHARACTERS]
