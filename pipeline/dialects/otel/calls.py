"""A span of a model's call as the request and the answer of Chat Completions; and the result in the span of a tool."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pipeline.dialects.otel.messages import answer_of, call_id_in, chat_messages, flat, parsed, result_of
from pipeline.dialects.otel.spans import ADK, FRAMEWORKS, TOOLS, Span
from pipeline.dialects.wire_values import number_or_none
from topics.json_text import Fields, filled, list_of, object_of, present

CHOICE: Final = "gen_ai.choice"
OLD_EVENTS: Final = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
ELIDED: Final = "<elided>"  # Google ADK writes this in place of words if it is set to export none
FAKE_ID: Final = "__fake_id__"  # the id that the OpenAI Agents SDK gives to answers of Chat Completions
BROKEN: Final = ("", "error")  # finish reasons of answers that broke off
LLM_REQUEST: Final = "gcp.vertex.agent.llm_request"
# What Chat Completions calls it -> the attributes in which emitters tell it.
COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt_tokens": ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "ai.usage.inputTokens"),
    "completion_tokens": ("gen_ai.usage.output_tokens", "llm.token_count.completion", "ai.usage.outputTokens"),
}
DETAILS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("prompt_tokens_details", "cached_tokens"): (
        *("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
        *("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
    ),
    ("prompt_tokens_details", "cache_write_tokens"): (
        *("gen_ai.usage.cache_creation.input_tokens", "llm.token_count.prompt_details.cache_write"),
        "ai.usage.inputTokenDetails.cacheWriteTokens",
    ),
    ("completion_tokens_details", "reasoning_tokens"): (
        *("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
        *("gen_ai.usage.details.reasoning_tokens", "llm.token_count.completion_details.reasoning"),
        "ai.usage.reasoningTokens",
    ),
}
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "temperature": ("gen_ai.request.temperature", "ai.settings.temperature"),
    "max_tokens": ("gen_ai.request.max_tokens", "ai.settings.maxOutputTokens"),
    "tools": ("gen_ai.tool.definitions", "ai.prompt.tools"),
}
ASKED: Final = ("gen_ai.request.model", "ai.model.id", "llm.model_name")
MODELS: Final = ("gen_ai.response.model", "ai.response.model", "llm.model_name", "gen_ai.request.model", "ai.model.id")
PROVIDERS: Final = ("gen_ai.provider.name", "llm.provider", "llm.system", "gen_ai.system", "ai.model.provider")
FIRST_CHUNKS: Final = ("gen_ai.client.operation.time_to_first_chunk", "gen_ai.response.time_to_first_chunk")  # s
ARGUMENTS: Final = (
    *("gen_ai.tool.call.arguments", "tool_arguments", "ai.toolCall.args", "gcp.vertex.agent.tool_call_args"),
    "input.value",
)
RESULTS: Final = (
    *("gen_ai.tool.call.result", "tool_response", "ai.toolCall.result", "gcp.vertex.agent.tool_response"),
    *("output.value", "gen_ai.completion", "traceloop.entity.output"),
)


@dataclass(frozen=True, slots=True)
class Call:
    """A model's call; its span has the attributes of the log records, too. Times in epoch ms.

    `messages`: of the request, without the system prompt, which is in `asked` with its other members. `answer`: {}
    without any word. `finish`: why the model ended; None: unknown. `error`: why the call failed. `broken`: its answer
    broke off.
    """

    span: Span
    at: int
    until: int
    messages: list[Fields]
    asked: Fields
    answer: Fields
    finish: str | None
    usage: Fields | None
    error: Fields | None
    broken: bool

    @property
    def calls(self) -> list[Fields]:
        """The calls of tools in the answer."""
        return list_of(self.answer.get("tool_calls"))

    @property
    def reason(self) -> str:
        """The finish reason by Chat Completions' names; `tool_calls` if it has calls, whatever its span says."""
        known = (self.finish or "stop").lower().replace("-", "_")
        return "tool_calls" if self.calls else "stop" if known in ("tool_call", "tool_calls") else known

    @property
    def model(self) -> str | None:
        """The model that has answered, else that which was asked."""
        return self.span.first(MODELS)

    @property
    def answer_id(self) -> str | None:
        """The answer's id at the provider."""
        told = self.span.first(("gen_ai.response.id", "ai.response.id")) or _provider_answer(self.span).get("id")
        return told if isinstance(told, str) and told != FAKE_ID else None

    @property
    def provider(self) -> str | None:
        """The provider of the model."""
        names = (self.span.first([name]) for name in PROVIDERS)
        told = next((name for name in names if name is not None and name not in FRAMEWORKS), None)
        return None if told is None else told.removesuffix(".chat").removesuffix(".responses")

    @property
    def first_at(self) -> int:
        """When the answer began, or was there."""
        seconds = self.span.value(FIRST_CHUNKS)
        known = isinstance(seconds, int | float) and 0 <= seconds * 1000 <= self.until - self.at
        return self.at + int(seconds * 1000) if known else self.until


def call_of(span: Span, holders: Sequence[Span]) -> Call:
    """Return the call that a span is about. `holders`: the spans that it is a part of, innermost first."""
    attributes = _dumped(span)
    for log in span.logs:
        if log.get("name") not in (*OLD_EVENTS, CHOICE):
            attributes |= log["attributes"]
    span = replace(span, attributes=attributes | present(span.attributes))
    around = {name: value for holder in reversed(holders) for name, value in holder.attributes.items()}
    said = _said(span, around)
    system = "\n".join([str(message["content"]) for message in said if message["role"] == "system"])
    asked: Fields = {"model": span.first(ASKED), "system": system}
    for name, names in PARAMETERS.items():
        value = span.value(names)
        asked[name] = [parsed(item) for item in value] if isinstance(value, list) else parsed(value)
    flat_tools = [object_of(object_of(tool).get("tool")) for tool in flat(span.attributes, "llm.tools.")]
    asked["tools"] = asked["tools"] or [parsed(tool.get("json_schema")) for tool in flat_tools]
    answer, finish = _answer(span, around)
    usage, error = _usage(span), _error(span, finish, holders)
    untold = usage is None and "output" not in _provider_answer(span)
    broken = error is None and (untold if finish is None else finish in BROKEN)
    messages = [present(message) for message in said if message["role"] != "system"]
    at, until = span.start // 1_000_000, span.end // 1_000_000
    return Call(span, at, until, messages, filled(asked), answer, finish or None, usage, error, broken)


def _said(span: Span, around: Mapping[str, Any]) -> list[Fields]:
    """Return the messages of the request, from where this emitter has them."""
    attributes, adk = span.attributes, span.scope == ADK
    request = object_of(parsed(attributes.get(LLM_REQUEST)))
    told = (
        chat_messages(attributes.get("gen_ai.input.messages"), results_wrapped=adk)
        or chat_messages(flat(attributes, "llm.input_messages."))
        or chat_messages(attributes.get("ai.prompt.messages"))
        or chat_messages(request, results_wrapped=adk)
        or chat_messages(attributes.get("gen_ai.prompt"))
        or chat_messages(flat(attributes, "gen_ai.prompt."))
        or _old_events(span)
        or chat_messages(around.get("mastra.model_generation.input"))
    )
    config = object_of(request.get("config"))
    system = parsed(attributes.get("gen_ai.system_instructions") or config.get("system_instruction"))
    texts = [system] if isinstance(system, str) else [object_of(part).get("content") for part in list_of(system)]
    return [{"role": "system", "content": text} for text in texts if isinstance(text, str)] + told


def _old_events(span: Span) -> list[Fields]:
    """Return the messages of a request that came as events, each with a body, in log records or the span."""
    events = [(OLD_EVENTS.get(name), body) for name, body in _bodies(span)]
    bodies = [{"role": role, **body} for role, body in events if role and body.get("content") != ELIDED]
    return chat_messages([body for body in bodies if body.get("content") or body.get("tool_calls")])


def _bodies(span: Span) -> list[tuple[str, Fields]]:
    events = [(str(event.get("name")), object_of(event.get("attributes"))) for event in span.events]
    return [(str(log.get("name")), object_of(log.get("body"))) for log in span.logs] + events


def _answer(span: Span, around: Mapping[str, Any]) -> tuple[Fields, str | None]:
    """Return the answer, and the finish reason that the span names."""
    attributes = span.attributes
    vercel = {"content": attributes.get("ai.response.text"), "tool_calls": attributes.get("ai.response.toolCalls")}
    vercel["reasoning"] = attributes.get("ai.response.reasoning")
    google = object_of(parsed(attributes.get("gcp.vertex.agent.llm_response"))).get("content")
    choices = [body for name, body in _bodies(span) if name == CHOICE and body.get("index", 0) == 0]
    choice = choices[0] if choices else {}
    told = (
        chat_messages(attributes.get("gen_ai.output.messages"))
        or chat_messages(flat(attributes, "llm.output_messages."))
        or chat_messages([{"role": "assistant", **vercel}] if any(vercel.values()) else [])
        or chat_messages([google] if google else [])
        or chat_messages([{"role": "assistant", **choice["message"]}] if object_of(choice.get("message")) else [])
    )
    answer, whole = answer_of(told), _whole_answer(span)
    if "reasoning_content" in whole or not answer:
        answer = whole | answer
    if "tool_calls" not in answer:  # LiteLLM's and Mastra's are beside the messages
        step = object_of(parsed(around.get("mastra.model_step.output")))
        beside = flat(attributes, "gen_ai.completion.") or [{"tool_calls": step.get("toolCalls")}]
        calls = answer_of(chat_messages([{"role": "assistant", **object_of(each)} for each in beside]))
        answer |= {key: calls[key] for key in ("role", "tool_calls") if "tool_calls" in calls}
    reasons = [*list_of(parsed(attributes.get("gen_ai.response.finish_reasons")))]
    reasons += [attributes.get(name) for name in ("llm.finish_reason", "ai.response.finishReason")]
    reasons += [*(message.get("finish_reason") for message in told), choice.get("finish_reason")]
    return answer, next((reason for reason in reversed(reasons) if isinstance(reason, str)), None)


def _whole_answer(span: Span) -> Fields:
    """Return the answer in the provider's JSON, which OpenInference keeps beside the messages."""
    whole = _provider_answer(span)
    choices = [object_of(choice).get("message") for choice in list_of(whole.get("choices"))[:1]]
    return answer_of(chat_messages(choices or list_of(whole.get("output"))))


def _provider_answer(span: Span) -> Fields:
    value = parsed(span.attributes.get("output.value"))
    return object_of(value[0] if isinstance(value, list) and value else value)


def _dumped(span: Span) -> Fields:
    """Return the facts in LangChain's dump of an answer, under the attributes of OpenTelemetry's conventions."""
    dumped = object_of(parsed(span.value(("gen_ai.completion", "output.value"))))
    generations = [each for some in list_of(dumped.get("generations")) for each in list_of(some)]
    message = object_of(object_of(object_of(generations[0] if generations else None).get("message")).get("kwargs"))
    told, usage = object_of(message.get("response_metadata")), object_of(message.get("usage_metadata"))
    finish = told.get("finish_reason")
    return present(
        {
            "gen_ai.output.messages": [message] if message else None,
            "gen_ai.response.finish_reasons": None if finish is None else [finish],
            "gen_ai.response.id": told.get("id"),
            "gen_ai.response.model": told.get("model_name"),
            "gen_ai.provider.name": told.get("model_provider"),
            "gen_ai.usage.cache_read.input_tokens": object_of(usage.get("input_token_details")).get("cache_read"),
            "gen_ai.usage.reasoning.output_tokens": object_of(usage.get("output_token_details")).get("reasoning"),
        }
    )


def _usage(span: Span) -> Fields | None:
    """Return the usage of a span by the names of Chat Completions; None if the span has no counts."""
    usage: Fields = present({name: number_or_none(span.value(names)) for name, names in COUNTS.items()})
    for (group, name), names in DETAILS.items():
        if (count := number_or_none(span.value(names))) is not None:
            usage.setdefault(group, {})[name] = count
    thoughts = object_of(usage.get("completion_tokens_details")).get("reasoning_tokens", 0)
    if "completion_tokens" in usage and span.scope == ADK and "/" in (span.first(ASKED) or ""):
        usage["completion_tokens"] = max(0, usage["completion_tokens"] - thoughts)  # LiteLLM's count has them already
    return usage or None


def _error(span: Span, finish: str | None, holders: Sequence[Span]) -> Fields | None:
    """Return why a call failed; None if it did not. Mastra writes it into the agent's span alone."""
    attributes = span.attributes
    if not span.failed and not (finish == "error" and "mastra.span.type" in attributes):
        return None
    exceptions = [object_of(event.get("attributes")) for event in span.events if event.get("name") == "exception"]
    told = exceptions[-1] if exceptions else {}
    kind = told.get("exception.type") or attributes.get("error.type")
    message = told.get("exception.message") or span.message or attributes.get("error.message")
    message = message or next((holder.message for holder in holders if holder.message), kind)
    return present({"message": str(message or "the call failed"), "type": None if kind is None else str(kind)})


@dataclass(frozen=True, slots=True)
class Result:
    """The result in the span of a tool. `call_id`: None if it doesn't name its call."""

    call_id: str | None
    name: str
    arguments: Any
    content: Any
    failed: bool
    at: int


def result_in(span: Span) -> Result | None:
    """Return the result in the span of a tool; None if the span has none."""
    value = span.value(RESULTS)
    if value is None and not span.failed:
        return None
    call_id = span.first(("gen_ai.tool.call.id", "ai.toolCall.id")) or call_id_in(value)
    content = span.message or "the tool failed" if value is None else result_of(value, wrapped=span.scope == ADK)
    arguments = parsed(span.value(ARGUMENTS))
    return Result(call_id, span.first(TOOLS) or span.name, arguments, content, span.failed, span.end // 1_000_000)


def answered_calls(calls: Sequence[Fields], results: Iterable[Result]) -> dict[str, Result]:
    """Return results by the ids of these calls, which have none yet.

    A result without an id is that of the first call with its name and arguments, else of the first with its name.
    """
    waiting = {call["id"]: object_of(call["function"]) for call in calls}
    known: dict[str, Result] = {}
    for result in sorted(results, key=lambda result: result.call_id is None):
        alike = [name for name, function in waiting.items() if function.get("name") == result.name]
        same = [name for name in alike if parsed(waiting[name].get("arguments")) == result.arguments]
        named = [name for name in waiting if name == result.call_id]
        for name in (named if result.call_id is not None else same or alike)[:1]:
            known[name] = result
            del waiting[name]
    return known
