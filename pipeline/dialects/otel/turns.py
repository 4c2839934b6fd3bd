"""The turns of a trace: which calls of models belong to which run, in which thread, and how each run ended.

A run is what an agent did, with all that it called, or a single call of a program without agents. The run of an agent
that a tool has called is a sub-run in the same thread.

The thread is that of the conversation's id. Where no span has any, it follows from what all traces of a conversation
repeat: the user's first words, and the first answer to them. A trace of which neither is known is a thread by itself.
So all follows from the spans, and neither from the order in which they came nor from what else was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Context
from pipeline.dialects import model_calls
from pipeline.dialects.openai_chat import DIALECT as CHAT
from pipeline.dialects.openai_chat import events
from pipeline.dialects.otel.calls import Call, Result, answered_calls, call_of, result_in
from pipeline.dialects.otel.spans import AGENTS, Span, Trace
from pipeline.dialects.wire_values import number_or_none
from topics import json_text
from topics.json_text import object_of, present
from turnmill.identity import thread_uuid

NAMELESS: Final = ("litellm",)  # emitters that tell the calls of an answer without their ids
SERVICE: Final = "service.name"
MS: Final = 1_000_000  # ns


@dataclass(slots=True)
class Group:
    """The calls of a run, in their order. `root`: the span of its agent. `outer`: the root of the run that began it."""

    agent: str
    root: Span | None = None
    outer: Span | None = None
    calls: list[Call] = field(default_factory=list)
    tools: list[Span] = field(default_factory=list)

    @property
    def began(self) -> Span:
        """The span with which it began."""
        return self.calls[0].span if self.root is None else self.root


def builders(trace: Trace, context: Context) -> list[Builder]:
    """Return a builder for each run of a trace, with its turn. `context`: of the run that has the spans as events."""
    conversation = trace.conversation()
    names: dict[str, str] = {}
    made: list[Builder] = []
    for group in groups_of(trace):
        began = group.began
        names[began.span_id] = run_id = f"{began.trace_id}.{began.span_id}" if made else began.trace_id
        inner = Context("", run_id, group.agent, context.dialect, tenant=context.tenant)
        if group.outer is not None and made:
            inner.thread_id, inner.external_id = made[0].context.thread_id, made[0].context.external_id
            inner.parent_run_id = names.get(group.outer.span_id)
        else:
            inner.thread_id, inner.external_id = _thread(group, conversation, context.tenant)
        inner.agent_name, inner.provider_name, inner.imported = group.agent, group.calls[0].provider, context.imported
        inner.traceparent = f"00-{began.trace_id}-{began.span_id}-01"
        made.append(_built(group, inner))
    return made


def groups_of(trace: Trace) -> list[Group]:
    """Return the runs of a trace that call a model, those that began others first, else in the order of time."""
    groups: dict[str, Group] = {}
    alone: list[Group] = []
    for span in trace.calls:
        path = trace.ancestors(span)
        call, (root, outer) = call_of(span, path), _root(path)
        agent = next((name for each in (span, *path) if (name := each.first(AGENTS))), None)
        service = str(span.resource.get(SERVICE) or "agent")
        if root is not None:
            name = agent or (root.name if root.kind == "chain" else service)
            group = groups.setdefault(root.span_id, Group(name, root, outer))
        elif alone and _goes_on(alone[-1].calls[-1], call):
            group = alone[-1]
        else:
            alone.append(group := Group(agent or service))
        group.calls.append(call)
    for span in trace.spans.values():
        root, _ = _root(trace.ancestors(span)) if span.kind == "tool" else (None, None)
        if root is not None and root.span_id in groups:
            groups[root.span_id].tools.append(span)
        elif span.kind == "tool" and root is None and alone:
            before = [group for group in alone if group.began.start <= span.start]
            (before or alone)[-1].tools.append(span)
    every = [*groups.values(), *alone]
    return sorted(every, key=lambda group: (group.outer is not None, group.began.start, group.began.span_id))


def _root(path: Sequence[Span]) -> tuple[Span | None, Span | None]:
    """Return the agent of whose run a span with these ancestors is a part, and that which has begun this run.

    Agents inside of each other are a single run, until a tool comes between; a chain may be the outermost.
    """
    runs: list[Span | None] = [None]
    for span in path:
        if span.kind == "agent" or (span.kind == "chain" and not span.parent_id):
            runs[-1] = span
        elif span.kind == "tool" and runs[-1] is not None:
            runs.append(None)
    known = [root for root in runs if root is not None]
    return (known[0] if known else None), (known[1] if len(known) > 1 else None)


def _goes_on(before: Call, call: Call) -> bool:
    """Return whether a call without an agent follows another in the same turn: it adds results, and no user's words."""
    known = len(before.messages) if before.messages == call.messages[: len(before.messages)] else 0
    return bool(before.calls) and not any(message["role"] == "user" for message in call.messages[known:])


def _thread(group: Group, conversation: str | None, tenant: str | None) -> tuple[str, str | None]:
    """Return the id of a run's thread, and the name that it was made of; None: of what was said."""
    trace_id = group.calls[0].span.trace_id
    if conversation is not None:
        return thread_uuid(conversation, tenant)
    begun = _beginning(group)
    if begun is None:
        return thread_uuid(trace_id, tenant)
    text = json_text.dumps([str(group.calls[0].span.resource.get(SERVICE)), begun])
    return thread_uuid(f"otel {sha256(text.encode()).hexdigest()}", tenant)[0], None


def _beginning(group: Group) -> list[Any] | None:
    """Return what every trace of the conversation repeats of its beginning; None if it is not known."""
    first, last = group.calls[0], group.calls[-1]
    said = first.messages
    answers = [n for n, message in enumerate(said) if message["role"] == "assistant"]
    words = [
        message["content"] for message in said[: answers[0] if answers else len(said)] if message["role"] == "user"
    ]
    if group.root is not None:  # its first turn, whose final answer stands before the user's next words
        turns = [n for n in answers if n + 1 < len(said) and said[n + 1]["role"] == "user"]
        whole = not last.calls and not last.broken and last.error is None
        final = said[turns[0]] if turns else last.answer if whole else {}
        return [words, final["content"]] if words and final.get("content") else None
    results = [message["tool_call_id"] for message in said if message["role"] == "tool"]
    answer = said[answers[0]] if answers else {} if results else first.answer
    calls = answer.get("tool_calls") or []
    if not words:  # of the Responses API, or not told: the id of a call is
        return [call["id"] for call in calls][:1] or results[:1] or None
    if not calls:
        return [words, answer["content"]] if answer.get("content") else None
    if any(first.span.scope == name for name in NAMELESS):
        return [words, [object_of(call["function"]) for call in calls]]
    return [calls[0]["id"]] if str(first.answer_id).startswith("resp_") else [words, calls[0]["id"]]


def _built(group: Group, context: Context) -> Builder:
    """Return a builder with the turn of a run: its calls, told to the wire of Chat Completions."""
    root, first, last = group.root, group.calls[0], group.calls[-1]
    builder = Builder(context, first.at if root is None else min(first.at, root.start // MS))
    builder.started = True
    CHAT.begin(builder)
    results = [result for span in group.tools if (result := result_in(span)) is not None]
    for number, call in enumerate(group.calls):
        _add_results(builder, group.calls[:number], results, call)
        _tell(builder, call)
    _add_results(builder, group.calls, results)
    until = last.until if root is None else max(last.until, root.end // MS)
    failed = root is not None and root.failed
    if failed and last.error is None and root is not None:
        builder.error_text = root.message or None
    end = "error" if failed or last.error is not None else "aborted" if last.broken else "complete"
    builder.at = builder.last_at = until
    builder.end_turn(end)
    builder.history = CHAT.history({"messages": first.messages})
    return builder


def _tell(builder: Builder, call: Call) -> None:
    """Tell the builder of a call as a stream of Chat Completions would."""
    builder.at = call.at
    body = {**call.asked, "messages": call.messages}
    model_calls.request(builder, {"object": model_calls.REQUEST, "request": body})
    answered = {"object": events.WHOLE, **present({"id": call.answer_id, "model": call.model})}
    if call.answer or (call.error is None and not call.broken):
        builder.at = call.first_at
        events.chunk(builder, {**answered, "choices": [{"index": 0, "message": {"role": "assistant", **call.answer}}]})
    builder.at = call.until
    if call.usage is not None:
        events.chunk(builder, {**answered, "choices": [], "usage": call.usage})
    if call.error is not None:
        status = present({"status": number_or_none(call.span.value(["http.response.status_code"]))})
        model_calls.refused(builder, {**status, "body": {"error": call.error}})
    elif not call.broken:
        events.chunk(builder, {**answered, "choices": [{"index": 0, "delta": {}, "finish_reason": call.reason}]})


def _add_results(
    builder: Builder, calls: Sequence[Call], results: Sequence[Result], before: Call | None = None
) -> None:
    """Add the results of these calls from the spans of tools, before a request that does not repeat them."""
    model_calls.calls_of(builder).settle(builder)
    answers = [part for message in builder.messages if message.kind == "request" for part in message.parts]
    answered = {part.fields.get("tool_call_id") for part in answers}
    answered |= {message.get("tool_call_id") for message in before.messages} if before is not None else set()
    asked = [call for each in calls for call in each.calls]
    waiting = [call for call in asked if call["id"] not in answered and call["id"] in builder.calls]
    known = answered_calls(waiting, [result for result in results if before is None or result.at <= before.at])
    for call in waiting:
        if (result := known.get(call["id"])) is not None:
            builder.at = result.at
            status = "error" if result.failed else "success"
            builder.tool_return(call["id"], status=status, content=result.content)
