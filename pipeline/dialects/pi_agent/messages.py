"""pi messages -> ThreadProtocol, for the dialects pi-agent and pi-proxy and for imported histories.

    user        {role, content: str | (text | image)[], timestamp}
    assistant   {role, content: (text | thinking | toolCall)[], api, provider, model, usage, stopReason, timestamp, …}
    toolResult  {role, toolCallId, toolName, content: (text | image)[], details?, isError, timestamp, …}
    system      {role, content, toolsAdded?, toolsRemoved?, timestamp}
    any other   an application's message

Fields that ThreadProtocol lacks are kept in `meta:pi` of the part or message, under pi's names, so that
`pipeline.dialects.pi_agent.formats` restores the messages. Timestamps are epoch ms.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.pi_agent.parts import response_parts, tool_return, user_prompt, with_rest
from pipeline.turns import tokens
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields

STOPS: Final = {"stop": "stop", "length": "length", "toolUse": "tool_call"}
CUT_OFF: Final = {"error": "error", "aborted": "aborted", "pending": "disconnected"}  # stopReason -> how the turn ended
NOT_STOPPED: Final = (*CUT_OFF, "deferred")
USAGE: Final = {
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
    "cacheWrite1h": "cache_write_1h_tokens",
    "reasoning": "thinking_tokens",
    "totalTokens": "total_tokens",
}
COSTS: Final = ("input", "output", "cacheRead", "cacheWrite", "total")
MAX_INTEGER: Final = 2**53  # up to which JavaScript's integers are exact; NaN and infinity are not below it


@dataclass(slots=True, eq=False)
class Received:
    """A message, and when its first part and its end were received (epoch ms).

    `is_event`: the message is an event of a type that pi does not define, and `role` is that type.
    """

    message: Fields
    first_part_at: int | None = None
    last_at: int | None = None
    is_event: bool = False


def write(builder: Builder, received: Sequence[Received]) -> str | None:
    """Append messages to the turn; return how the last response was cut off (error, aborted, disconnected), or None.

    User messages before the first response become one UserTurn. After a response, its results and the following user
    messages become one request. A response that failed and was retried becomes a system message `error`.
    """
    prompts: list[Fields] = []
    spent: list[Fields] = []
    response, request = builder.last_response(), None
    final = max((n for n, item in enumerate(received) if item.message["role"] == "assistant"), default=-1)
    cut_off: str | None = None
    at = builder.first_at
    for number, item in enumerate(received):
        message, role = item.message, item.message["role"]
        at = time_of(message) or item.last_at or at
        if role == "assistant":
            spent.append(usage(message))
            cut_off = CUT_OFF.get(str(message.get("stopReason")))
            if cut_off and number < final:
                _add_system_message(builder, "error", {"message": message.get("errorMessage"), "retryable": True}, at)
                continue
            response, request = _response(builder, item, at, closed=cut_off is None), None
            builder.error_text = message.get("errorMessage") if cut_off else None
        elif role == "user" and response is None and request is None:
            prompts.append(message)
        elif role in ("user", "toolResult"):
            call_ids = [part.fields.get("tool_call_id") for part in response.parts] if response is not None else []
            if role == "toolResult" and response is not None and message.get("toolCallId") not in call_ids:
                continue
            request = _request(builder, response, request, at)
            part = user_prompt(message) if role == "user" else tool_return(message)
            request.parts.append(Part(part, done=True))
        elif role == "system":
            for key, kind in (("toolsAdded", "tool.grant"), ("toolsRemoved", "tool.revoke")):
                if message.get(key):
                    _add_system_message(builder, kind, {"tools": message[key]}, at)
        else:
            data = {key: value for key, value in message.items() if key != "role"}
            _add_system_message(
                builder, f"data-app-{role}", data, at, {"event": role} if item.is_event else {"role": role}
            )
    if prompts:
        times = [at for at in map(time_of, prompts) if at is not None]
        builder.user_turn([user_prompt(message) for message in prompts], at=min(times, default=builder.first_at))
    if spent:
        builder.total_usage = total([builder.total_usage or {}, *spent])
    return cut_off


def time_of(message: Fields) -> int | None:
    """Return a message's timestamp, epoch ms; pi writes 0 if there is none."""
    return epoch_ms(message.get("timestamp")) or None


def span(received: Iterable[Received]) -> tuple[int, int] | None:
    """Return (the first message's time, the latest end of any), epoch ms; None if no message has a time."""
    spans = [(at, item.message.get("durationMs")) for item in received if (at := time_of(item.message)) is not None]
    if not spans:
        return None
    return spans[0][0], max(at + (int(duration) if _is_number(duration) else 0) for at, duration in spans)


# ---- messages


def _response(builder: Builder, item: Received, at: int, *, closed: bool) -> Message:
    message = item.message
    response = Message(
        "response",
        at,
        parts=[Part(part, done=True) for part in response_parts(message)],
        fields=response_fields(message),
        closed=closed,
        first_part_at=item.first_part_at,
        last_at=item.last_at,
        keep_empty=closed,  # pi keeps complete responses without content
    )
    builder.messages.append(response)
    return response


def _request(builder: Builder, response: Message | None, request: Message | None, at: int) -> Message:
    request = request or (response.request if response is not None else None)
    if request is None:
        request = Message("request", at, closed=True)
        builder.messages.append(request)
        if response is not None:
            response.request = request
    request.at = max(request.at, at)
    return request


def _add_system_message(builder: Builder, event_type: str, data: Any, at: int, meta: Fields | None = None) -> None:
    """Append a system message. A queued one may be older than the previous message: it then gets that one's time."""
    before = builder.messages[-1].at if builder.messages else 0
    builder.system(event_type, data, **({"meta:pi": meta} if meta else {})).at = max(at, before)


def response_fields(message: Fields) -> Fields:
    """Return the fields of an assistant message's response, without parts."""
    model = message.get("responseModel") or message.get("model")
    stop = message.get("stopReason")
    fields = {
        "model_name": model,
        "provider_name": message.get("provider"),
        "provider_response_id": message.get("responseId"),
        "finish_reason": STOPS.get(str(stop)) or (None if stop is None or stop in NOT_STOPPED else "error"),
    }
    fields = {key: value for key, value in fields.items() if isinstance(value, str)}
    if stop == "deferred":
        fields["finish_reason"] = "tool_call"
    if isinstance(message.get("usage"), dict):
        fields["usage"] = usage(message)
    known = {"role", "content", "usage", "provider", "responseId"}
    known |= {"stopReason"} if isinstance(stop, str) and stop in STOPS else set()
    known |= {"model"} if model == message.get("model") and "responseModel" not in message else set()
    return with_rest(fields, message, known)


def usage(message: Fields) -> Fields:
    """Return pi's usage, whose `input` excludes cached tokens, as ThreadProtocol's, with pi's cost and cache split."""
    if not isinstance(message.get("usage"), dict):
        return {}
    usage: Fields = message["usage"]
    named: Fields = {USAGE.get(key, key): value for key, value in usage.items() if key != "input"}
    counts = [usage.get(key) for key in ("input", "cacheRead", "cacheWrite")]
    return {"input_tokens": sum(count for count in counts if _is_number(count)), **named}


def total(spent: Sequence[Fields]) -> Fields | None:
    """Return the sum of usages, with that of their costs; None if there are none."""
    summed = tokens.total(spent)
    costs = [used["cost"] for used in spent if isinstance(used.get("cost"), dict)]
    if summed and costs:
        summed["cost"] = {name: sum(cost[name] for cost in costs if _is_number(cost.get(name))) for name in COSTS}
    return summed


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MAX_INTEGER < value < MAX_INTEGER
