"""Google's Gemini API (dialect `gemini`): the answers of `generateContent` and `streamGenerateContent`.

| event | what it does |
|---|---|
| turnmill.request | a call begins; its new contents are the request after the previous response |
| turnmill.request with a `continuationToken` of the previous answer | that answer goes on, whatever ended it |
| turnmill.error | the server refused the call: interrupted, unless another call follows |
| a GenerateContentResponse | adds the parts of candidate 0 to the response; its `finishReason` ends the call well |
| `promptFeedback.blockReason` | the prompt was blocked: the call is over, without an answer |
| `usageMetadata` | the tokens so far: those of the last response that has any, in each call of an answer |
| `groundingMetadata`, `citationMetadata` | SystemMessage `source.url` for each page, after the response |
| a list (the JSON array of a stream without `alt=sse`) | each of its responses |
| `response`, with a response in it (Code Assist) | that response |
| `error` | the call failed: interrupted, unless another call follows |
| any other | SystemMessage data-app-TYPE |

A whole answer has the form of a piece of a stream. Older models write a `finishReason` in every piece, so pieces after
one still belong to the call. Other candidates are alternatives: SystemMessage `custom:choice`.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Stretch, Violation
from pipeline.assembly.parts import Message
from pipeline.dialects import model_calls
from pipeline.dialects.gemini.answer import CandidateAnswer, text_of
from pipeline.dialects.gemini.request import READER, made_up, token_of
from pipeline.dialects.google_adk.event import searches, thoughts_are_apart, usage_of
from pipeline.dialects.google_adk.parts import META, spelled
from pipeline.dialects.model_calls import calls_of
from pipeline.dialects.wire_values import is_number, note_under, tell_names
from pipeline.turns.tokens import SUMMED_CALLS
from topics.json_text import Fields

ANSWERS: Final = frozenset({"candidates", "promptFeedback", "usageMetadata", "responseId", "modelVersion"})
REST: Final = "continuationToken"  # of a candidate: with it the rest of its answer can be requested
CONTINUES: Final = "CONTINUATION"  # the answer continues in that of the next request


@dataclass(slots=True, eq=False)
class Candidates:
    """The candidates of a call, by their index; 0 is the conversation's.

    `counts`: its `usageMetadata` so far; `apart`: it has shown that it counts thoughts beside the candidates. `tokens`:
    with which its rest can be requested; `before`: the counts of the calls before the newest.
    """

    main: CandidateAnswer
    others: dict[int, CandidateAnswer] = field(default_factory=dict)
    counts: Fields = field(default_factory=dict)
    apart: bool = False
    tokens: list[str] = field(default_factory=list)
    before: Fields = field(default_factory=dict)


def request(builder: Builder, event: Fields) -> None:
    """Handle `turnmill.request`: a call begins, or the previous answer goes on."""
    calls = calls_of(builder)
    answers: Candidates | None = calls.answer
    if answers is None or token_of(event["request"]) not in answers.tokens:
        model_calls.request(builder, event)
        return
    answers.before, answers.counts = _summed(answers), {}
    answers.main.settled, answers.main.finish = False, None
    answers.main.response.fields.get(META, {}).pop(REST, None)
    calls.whole = calls.shut = calls.awaits = False
    builder.ended, builder.error_text = None, None


def unknown(builder: Builder, raw: Fields) -> None:
    """Handle a response, by its content: responses have no type."""
    if raw.get("event", raw) is None and isinstance(raw.get("data"), list):
        for each in raw["data"]:
            if not isinstance(each, dict):
                raise Violation(f"a response is an object, got {each!r:.80}")
        for each in raw["data"]:
            _take(builder, spelled(each))
        return
    _take(builder, spelled(raw))


def texts(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive responses that extend one text and differ in nothing but text and tokens (a Stretch)."""
    calls = calls_of(builder)
    answers: Candidates | None = calls.answer
    first = text_of(events[start])
    if first is None or answers is None or calls.shut or not answers.main.grows(is_thought=first.is_thought):
        return start
    response, pieces, counts = answers.main.response, [], first.counts
    for at in range(start, len(events)):
        piece = text_of(events[at])
        if piece is None or piece.is_thought != first.is_thought or piece.beside != first.beside:
            break
        pieces.append(piece.text)
        counts = piece.counts or counts
        answers.apart = answers.apart or thoughts_are_apart(counts)
    answers.counts = _later(answers.counts, counts)
    answers.main.append("".join(pieces))
    _describe(response, first.beside)
    _count(builder, answers)
    return start + len(pieces)


def _take(builder: Builder, body: Fields) -> None:
    """Add a response."""
    if isinstance(body.get("response"), dict):
        body = spelled(body["response"])
    if "error" in body and "candidates" not in body:
        calls_of(builder).settle(builder)
        model_calls.fail(builder, body["error"])
        calls_of(builder).shut = True
        return
    if not body.keys() & ANSWERS:
        kind = body.get("type", "event")
        if not isinstance(kind, str):
            raise Violation(f"an event's 'type' is a text, got {kind!r:.80}")
        model_calls.ask_first(builder)
        builder.system(f"data-app-{kind}", {key: value for key, value in body.items() if key != "type"})
        return
    if calls_of(builder).shut:
        raise Violation("a response: the call is over")
    candidates = [spelled(candidate) for candidate in _list(body.get("candidates"))]
    counts = spelled(body["usageMetadata"]) if "usageMetadata" in body else {}
    answers = _answers(builder)
    for candidate in candidates:
        _add(builder, answers, candidate)
    _describe(answers.main.response, body)
    answers.counts = _later(answers.counts, counts)
    _count(builder, answers)
    feedback = body.get("promptFeedback")
    reason = spelled(feedback).get("blockReason") if isinstance(feedback, dict) else None
    if isinstance(reason, str) and not candidates:
        answers.main.response.keep_empty = True
        answers.main.blocked = True
        _end(builder, answers.main)


def _answers(builder: Builder) -> Candidates:
    calls = calls_of(builder)
    response = model_calls.open_response(builder)
    if calls.answer is None:
        calls.answer = Candidates(CandidateAnswer(response, made_up(calls.items or ())))
    answers: Candidates = calls.answer
    return answers


def _add(builder: Builder, answers: Candidates, candidate: Fields) -> None:
    """Add a response's part of a candidate."""
    index = candidate.get("index", 0)
    answer = answers.main
    if index.__class__ is int and index != 0:
        if index not in answers.others:
            answers.others[index] = CandidateAnswer(Message("response", builder.at), answers.main.first_call)
        answer = answers.others[index]
    answer.add(candidate, builder.at)
    if isinstance(candidate.get(REST), str):
        answers.tokens.append(candidate[REST])
    if answer is answers.main and answer.finish is not None:
        _end(builder, answer)


def _end(builder: Builder, answer: CandidateAnswer) -> None:
    answer.response.last_at = builder.at
    model_calls.end_call(builder, awaits=bool(answer.calls()) or answer.finish == CONTINUES)


def _describe(response: Message, fields: Fields) -> None:
    """Record who answered, and the fields beside the candidates."""
    tell_names(response.fields, fields, {"responseId": "provider_response_id", "modelVersion": "model_name"})
    rest = {key: value for key, value in fields.items() if key not in ANSWERS and key != "candidates"}
    note_under(META, response.fields, {"promptFeedback": fields.get("promptFeedback"), **rest})


def _later(before: Fields, now: Fields) -> Fields:
    """Return the later counts, without a mixture, since thoughts may move; but a zero leaves the count before it."""
    return {key: count or before.get(key) or count for key, count in now.items()} or before


def _count(builder: Builder, answers: Candidates) -> None:
    response = answers.main.response
    answers.apart = answers.apart or thoughts_are_apart(answers.counts)
    usage = usage_of(_summed(answers), apart=answers.apart)
    if usage and answers.before:
        usage[SUMMED_CALLS] = True
    if answers.main.grounding:
        usage = (usage or {}) | searches(answers.main.grounding, response.fields.get("model_name"))
    if usage:
        builder.usage(usage, response)


def _summed(answers: Candidates) -> Fields:
    """Return the counts of all calls of an answer; each call counts what it has read again."""
    summed = dict(answers.counts)
    for key, count in answers.before.items():
        now = summed.get(key)
        if now is None:
            summed[key] = count
        elif is_number(now) and is_number(count) and key.endswith("Count"):
            summed[key] = count + now
        elif isinstance(now, list) and isinstance(count, list):  # by modality
            summed[key] = [*count, *now]
    return summed


def _settle(builder: Builder) -> None:
    """Settle the newest call: register its calls, and add facts beside the answer after it."""
    answers: Candidates | None = calls_of(builder).answer
    if answers is None or not model_calls.settle_answer(builder, answers.main):
        return
    for url, title in answers.main.pages.items():
        source = {"source_id": url, "url": url}
        builder.system("source.url", source if title is None else {**source, "title": title})
    for index, other in sorted(answers.others.items()):
        other.settle(whole=other.finish is not None)
        builder.system("custom:choice", {"index": index, "finish_reason": other.finish, "parts": other.parts()})


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Violation(f"'candidates' are a list, got {value!r:.80}")
    return value


begin: Final = partial(model_calls.begin, reader=READER, settle=_settle)
HANDLERS: Final[dict[str, Handler]] = {model_calls.REQUEST: request, model_calls.ERROR: model_calls.refused}
STRETCHES: Final[dict[str | None, Stretch]] = {None: texts}
