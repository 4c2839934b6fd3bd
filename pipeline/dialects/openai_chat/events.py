"""OpenAI's Chat Completions, streamed (dialect `openai-chat`), as OpenAI and the many servers that speak it write it.

| event | what it does |
|---|---|
| turnmill.request | a call begins; its new messages are the request after the previous response |
| turnmill.error | the server refused the call: interrupted, unless another call follows |
| chat.completion.chunk | adds the delta of choice 0 to the response; its `finish_reason` ends the call |
| chat.completion | a whole answer; with a `delta` that says something, a chunk (Perplexity's) |
| `finish_reason` | of any provider, in any case of letters; `error`, and what `dialects/ends.py` lacks, fail the call |
| `[DONE]` | the end of a call's stream; after it an error is SystemMessage `error`, and all else is refused |
| `error`, alone or beside choices | the call failed; a later `finish_reason` changes nothing |
| any other with choices | as a chunk, whatever its `object` is |
| any other | SystemMessage data-app-OBJECT |

Other choices are alternatives: SystemMessage `custom:choice`. The last usage in the stream counts; a zero in it leaves
the count before it.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Delta, Handler, Stretch, Violation
from pipeline.assembly.parts import Message
from pipeline.dialects import ends, model_calls
from pipeline.dialects.model_calls import calls_of
from pipeline.dialects.openai_chat.answer import GROWING, ChoiceAnswer
from pipeline.dialects.openai_chat.keys import META, note
from pipeline.dialects.openai_chat.request import READER
from pipeline.dialects.openai_chat.usage import usage_of
from pipeline.dialects.wire_values import counted
from pipeline.turns.tokens import tier_of
from topics.json_text import Fields, list_of, object_of, present

DONE: Final = "[DONE]"
CHUNK: Final = "chat.completion.chunk"
WHOLE: Final = "chat.completion"
OF_CHUNK: Final = frozenset({"id", "object", "created", "model", "choices", "usage", "error", "obfuscation", "message"})
VARIED: Final = dict.fromkeys(("choices", "created", "obfuscation"))  # fields in which chunks may differ
OF_CHOICE: Final = frozenset({"index", "delta", "message", "finish_reason", "logprobs"})


@dataclass(slots=True, eq=False)
class Choices:
    """The choices of a call, by their index; 0 is the conversation's."""

    main: ChoiceAnswer
    others: dict[int, ChoiceAnswer] = field(default_factory=dict)


def chunk(builder: Builder, event: Fields) -> None:
    """Add a piece of the answer, or all of it."""
    if _is_over(builder, event):
        return
    choices, failure = event.get("choices"), event.get("error")
    answers = _choices(builder)
    _describe(answers.main.response, event)
    for choice in list_of(choices):
        if isinstance(choice, dict):
            _add(builder, answers, choice, whole=event.get("object") == WHOLE)
    usage = usage_of(event)
    if usage is not None:
        _count(builder, answers.main.response, usage)
    if failure:
        model_calls.fail(builder, failure)
    elif answers.main.failed and builder.ended != "error":
        model_calls.fail(builder, f"the server ended the answer with finish_reason {answers.main.finish}")


def chunks(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive chunks that extend the text or the thought, and otherwise are alike (a Stretch)."""
    calls, first = calls_of(builder), _text_chunk(events[start])
    answers: Choices | None = calls.answer
    if first is None or answers is None or calls.shut or answers.main.failed:
        return start
    part = answers.main.growing(first.key)
    if part is None:
        return start
    pieces = [first]
    for at in range(start + 1, len(events)):
        piece = _text_chunk(events[at])
        if piece is None or piece.key != first.key or piece.beside != first.beside:
            break
        pieces.append(piece)
    _describe(answers.main.response, pieces[-1].beside)
    part.chunks.append("".join(piece.text for piece in pieces))
    return start + len(pieces)


class TextChunk(NamedTuple):
    """A chunk with nothing but a text: the text's key in the delta, and the other fields."""

    key: str
    text: str
    beside: Fields


def _text_chunk(event: Any) -> TextChunk | None:
    if event.__class__ is not dict or event.get("object") != CHUNK:
        return None
    if event.get("error") or event.get("usage") or event.get("x_groq"):
        return None
    choices = event.get("choices")
    choice = choices[0] if choices.__class__ is list and len(choices) == 1 else None
    if choice.__class__ is not dict or choice.get("index", 0) != 0 or choice.get("delta").__class__ is not dict:
        return None
    for key in choice:
        if key not in ("index", "delta") and choice[key] is not None:
            return None
    text_key = None
    for key, value in choice["delta"].items():
        if value is None or key == "role":
            continue
        if text_key is not None or key not in GROWING or value.__class__ is not str or not value:
            return None
        text_key = key
    return None if text_key is None else TextChunk(text_key, choice["delta"][text_key], {**event, **VARIED})


def whole(builder: Builder, event: Fields) -> None:
    """Add an answer that was not streamed: one event, and nothing follows. Perplexity calls its chunks so, too."""
    if _is_over(builder, event):
        return
    choices = event.get("choices")
    begun = calls_of(builder).answer is not None
    chunk(builder, event)
    if begun or any(_is_piece(choice) for choice in list_of(choices)):
        return
    if builder.ended != "error":
        _end(builder)
    calls_of(builder).shut = True


def unknown(builder: Builder, event: Fields) -> None:
    """Handle an event without a known `object`, by its other keys."""
    if "event" in event and event.get("data") == DONE:
        _done(builder)
    elif isinstance(event.get("choices"), list) or event.get("error"):
        chunk(builder, event)
    else:
        kind = event.get("object")
        if kind is not None and not isinstance(kind, str):
            raise Violation(f"'object' is a text, got {kind!r:.80}")
        model_calls.ask_first(builder)
        builder.system(f"data-app-{kind or 'event'}", {key: value for key, value in event.items() if key != "object"})


def _done(builder: Builder) -> None:
    """End a call's stream. Some servers write no `finish_reason` before it."""
    calls = calls_of(builder)
    if calls.response is not None and not calls.shut and builder.ended != "error":
        _end(builder)
    calls.shut = True


def _is_over(builder: Builder, event: Fields) -> bool:
    """Return True if the call has ended; an error is then kept beside its answer.

    Raises Violation for any other event after the end.
    """
    if not calls_of(builder).shut:
        return False
    if not event.get("error"):
        raise Violation(f"{event.get('object', 'choices')!s:.80}: the call is over")
    builder.system("error", {"error": event["error"]})
    return True


def _choices(builder: Builder) -> Choices:
    calls = calls_of(builder)
    response = model_calls.open_response(builder)
    if calls.answer is None:
        calls.answer = Choices(ChoiceAnswer(response))
    choices: Choices = calls.answer
    return choices


def _add(builder: Builder, answers: Choices, choice: Fields, *, whole: bool) -> None:
    index = choice.get("index")
    index = index if isinstance(index, int) else 0
    answer = answers.main
    if index != 0:
        answer = answers.others.setdefault(index, ChoiceAnswer(Message("response", builder.at)))
    delta, message = choice.get("delta"), choice.get("message")
    if isinstance(message, dict) and (not isinstance(delta, dict) or not (_says(delta) or answer.response.parts)):
        answer.add(message, builder.at, whole=whole)
    elif isinstance(delta, dict):
        answer.add(delta, builder.at)
    _describe_choice(answer.response, choice)
    reason = choice.get("finish_reason")
    if isinstance(reason, str) and reason and answer.finish is None:
        answer.finish = reason
        answer.failed = ends.over_chat(reason) == "error"
        if answer is answers.main and not answer.failed and builder.ended != "error":
            _end(builder)


def _is_piece(choice: Any) -> bool:
    """Return True for a choice of a stream, beside whose delta Perplexity repeats the message so far."""
    delta, message = (choice.get("delta"), choice.get("message")) if isinstance(choice, dict) else (None, None)
    if not isinstance(delta, dict) or not isinstance(message, dict):
        return isinstance(delta, dict)
    return _says(delta) or not (_says(message) or choice.get("finish_reason"))


def _says(message: Fields) -> bool:
    return any(value for key, value in message.items() if key != "role")


def _end(builder: Builder) -> None:
    answers: Choices = calls_of(builder).answer
    response = answers.main.response
    response.last_at = builder.at
    reason = answers.main.finish
    if reason is None:
        response.fields["finish_reason"] = None
        note(response.fields, {"ended_by": DONE})
    elif reason not in ("stop", "tool_calls"):
        ends.tell(response.fields, ends.ALL, reason.lower())
        note(response.fields, {"finish_reason": reason if reason not in ends.CHAT else None})
    model_calls.end_call(builder, awaits=bool(answers.main.calls()))


def _count(builder: Builder, response: Message, usage: Fields) -> None:
    """Set the tokens of the answer, and the tier that served it, which is beside the usage."""
    tier = {"service_tier": response.fields.get(META, {}).get("service_tier")}
    builder.usage(counted(response.fields.get("usage"), usage | tier if tier_of(tier) else usage), response)


def _describe(response: Message, event: Fields) -> None:
    """Record who answered. The first chunk of some servers has empty texts there."""
    for key, name in (("id", "provider_response_id"), ("model", "model_name")):
        if isinstance(event.get(key), str) and event[key]:
            response.fields.setdefault(name, event[key])
    rest = {key: value for key, value in event.items() if key not in OF_CHUNK and value is not None}
    if rest:
        note(response.fields, rest)


def _describe_choice(response: Message, choice: Fields) -> None:
    rest = {key: value for key, value in choice.items() if key not in OF_CHOICE and value not in (None, {})}
    tokens = object_of(choice.get("logprobs")).get("content")
    if isinstance(tokens, list) and tokens:
        before = response.fields.get(META, {}).get("logprobs", {}).get("content", [])
        rest["logprobs"] = {"content": before + tokens}
    if rest:
        note(response.fields, rest)


def _settle(builder: Builder) -> None:
    """Settle the newest call: order its parts, and add facts beside them."""
    answers: Choices | None = calls_of(builder).answer
    if answers is None or not model_calls.settle_answer(builder, answers.main):
        return
    for annotation in answers.main.citations():
        _source(builder, annotation)
    if answers.main.executed:
        builder.system("custom:executed_tools", answers.main.executed)
    for index, other in sorted(answers.others.items()):
        other.settle(whole=other.finish is not None)
        builder.system("custom:choice", {"index": index, "finish_reason": other.finish, "parts": other.json_parts()})


def _source(builder: Builder, annotation: Fields) -> None:
    citation = annotation.get("url_citation")
    citation = citation if isinstance(citation, dict) else annotation
    source = {"source_id": citation.get("url"), "url": citation.get("url"), "title": citation.get("title")}
    message = builder.system("source.url", present(source))
    note(message.fields, {"annotation": annotation})


begin: Final = partial(model_calls.begin, reader=READER, settle=_settle)
HANDLERS: Final[dict[str, Handler]] = {
    model_calls.REQUEST: model_calls.request,
    model_calls.ERROR: model_calls.refused,
    CHUNK: chunk,
    WHOLE: whole,
}
STRETCHES: Final[dict[str | None, Stretch]] = {CHUNK: chunks}
DELTAS: Final[dict[str | None, tuple[Delta, ...]]] = {
    CHUNK: tuple(Delta(kind, ("choices", 0, "delta", key)) for key, kind in GROWING.items())
}
