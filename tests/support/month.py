"""A month of runs, as programs and providers stream them: what a bill by hand is compared with.

October 2026 in Berlin: it begins and ends in the midst of UTC's hours of two other months, and has an hour twice.
Names of counts are those of openai 3.57, anthropic 2.14, google-genai 3.6, langchain-core 1.8.3, ag-ui 1.0 and
claude-agent-sdk 0.2.189.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from pipeline.dialects.claude_code.transcript import Session
from pipeline.dialects.transcript import Homes
from tests.support.read_sessions import read
from tests.support.session_forks import forked_claude
from tests.support.sessions import Claude
from topics.turn_record import TurnRecord
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import encode
from turnmill.wire.registry import box

Fields = dict[str, Any]
DAY_MS = 86_400_000
TOOL: Fields = {"type": "tool_use", "id": "t1", "name": "weigh", "input": {}}


def at(text: str) -> int:
    """-> epoch ms of a time in UTC of 2026, as 10-01T12:00."""
    return int(datetime.fromisoformat(f"2026-{text}+00:00").timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Sent:
    """A run as it is published: all its events at one time, or `later`: from the n-th event on that many ms later."""

    name: str
    when: str
    dialect: str
    events: list[Any]
    provider: str | None = None
    tenant: str | None = None
    end: str | None = "complete"
    later: tuple[int, int] = (0, 0)
    info: Fields = field(default_factory=dict)

    def envelopes(self) -> list[Fields]:
        """Return its records, of two events each."""
        identity: Fields = {"v": 1, "thread_id": thread_uuid(self.name, self.tenant)[0], "run_id": self.name}
        identity |= {"agent_id": "baker", "dialect": self.dialect}
        if self.tenant is not None:
            identity["tenant"] = self.tenant
        first, more = self.later
        records: list[Fields] = []
        for seq in range(0, len(self.events), 2):
            events = self.events[seq : seq + 2]
            dt = [more if more and seq + n >= first else 0 for n in range(len(events))]
            records.append({**identity, "seq": seq, "ts": at(self.when), "events": events, "dt": dt})
        info = {**({"provider_name": self.provider} if self.provider else {}), **self.info}
        if info:
            records[0]["run"] = info
        if self.end is not None:
            records[-1]["end"] = self.end
        return records


def turns_of(envelopes: Iterable[Fields]) -> list[TurnRecord]:
    """Assemble runs as a worker does; nothing may be refused."""
    partition = Partition(DIALECTS, Limits(), 0)
    last = 0
    for offset, envelope in enumerate(sorted(envelopes, key=lambda one: one["ts"])):
        last = envelope["ts"]
        partition.feed([StoredRecord(encode(envelope), offset, last)])
    partition.tick(last + DAY_MS)
    assert [f"{dead.reason}: {dead.detail}" for dead in partition.out.dead] == []
    return partition.out.turns


# ---- wires


def asked(*said: str, model: str = "m") -> Fields:
    """A request whose messages are words of the user and of the agent in turn."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(said)]
    return {"type": "turnmill.request", "request": {"model": model, "max_tokens": 9, "messages": messages}}


def messages_call(model: str, usage: Fields, *, block: Fields | None = None) -> list[Fields]:
    """A call of Anthropic's Messages API: its input comes at its start, all else at its end."""
    early = {name: usage[name] for name in usage if name.endswith("input_tokens") or name == "cache_creation"}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    begin = block or {"type": "text", "text": "Baked."}
    return [
        {"type": "message_start", "message": {**message, "usage": {**early, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": begin},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use" if block else "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


def cached(fresh: int, read: int, minutes: int, hour: int, output: int, **more: Any) -> Fields:
    """Anthropic's counts, with what is written to the cache for five minutes and for an hour."""
    lifetimes = {"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour}
    caches = {"cache_read_input_tokens": read, "cache_creation_input_tokens": minutes + hour}
    return {"input_tokens": fresh, **caches, "cache_creation": lifetimes, "output_tokens": output, **more}


def response(model: str, read: int, written: int, *items: Fields, details: Fields | None = None, **more: Any) -> Any:
    """A call of OpenAI's Responses API."""
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written, **(details or {})}
    said: Fields = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Baked."}]}
    output = [{"id": f"item_{n}", **item} for n, item in enumerate((*items, said))]
    last = {"id": "resp_1", "object": "response", "model": model, "usage": usage, "output": output, **more}
    return [asked("Bake", model=model), {"type": "response.completed", "response": last}]


def chat(model: str, read: int, written: int, *, tier: str | None = None, **usage: Any) -> list[Any]:
    """A call of Chat Completions: its usage is in a chunk of its own."""
    identity = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model}
    counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written, **usage}
    return [
        {"object": "turnmill.request", "request": {"model": model, "messages": [{"role": "user", "content": "Bake"}]}},
        {**identity, "choices": [{"index": 0, "delta": {"content": "Baked."}, "finish_reason": "stop"}]},
        {**identity, "choices": [], "usage": counts, **({"service_tier": tier} if tier else {})},
        box("[DONE]"),
    ]


def gemini(model: str, counts: Fields, **candidate: Any) -> list[Fields]:
    """A call of Gemini in two pieces; the counts of the last one are those of the call."""
    first = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Ba"}]}, "index": 0}], "responseId": "r"}
    said = {"content": {"role": "model", "parts": [{"text": "ked."}]}, "finishReason": "STOP", "index": 0, **candidate}
    early = {"promptTokenCount": counts["promptTokenCount"], "totalTokenCount": counts["promptTokenCount"]}
    body = {"contents": [{"role": "user", "parts": [{"text": "Bake"}]}]}
    return [
        {"type": "turnmill.request", "request": body},
        {**first, "modelVersion": model, "usageMetadata": early},
        {"candidates": [said], "modelVersion": model, "responseId": "r", "usageMetadata": counts},
    ]


def adk(model: str, counts: Fields) -> list[Fields]:
    """A run of Google's ADK, with two searches."""
    content = {"role": "model", "parts": [{"text": "Baked."}]}
    who = {"id": "e1", "invocationId": "i1", "author": "baker", "actions": {}, "modelVersion": model}
    searched = {**WEB, "webSearchQueries": ["rye", "oats"]}
    return [{**who, "content": content, "usageMetadata": counts, "groundingMetadata": searched}]


def ag_ui(calls: int, *usages: Fields) -> list[Fields]:
    """A run of AG-UI that calls tools and then answers; its end tells the tokens of all its calls of models."""
    events: list[Fields] = [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}]
    for number in range(calls - 1):
        who = {"toolCallId": f"c{number}"}
        events += [{"type": "TOOL_CALL_START", **who, "toolCallName": "weigh"}, {"type": "TOOL_CALL_END", **who}]
        events.append({"type": "TOOL_CALL_RESULT", "messageId": f"r{number}", **who, "content": "3 kg"})
    for kind, more in (("START", {}), ("CONTENT", {"delta": "Baked."}), ("END", {})):
        events.append({"type": f"TEXT_MESSAGE_{kind}", "messageId": "m", **more})
    return [*events, {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "usage": list(usages)}]


def sums(model: str, read: int, written: int) -> Fields:
    """Tokens of a model in AG-UI."""
    counts = {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}
    return {"model": model, "provider": "openai", **counts}


def line(number: int, usage: Fields) -> Fields:
    """An answer of Claude Code."""
    message = {"id": f"m{number}", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "Baked."}]}
    return {"type": "assistant", "message": {**message, "usage": usage, "stop_reason": "end_turn"}, "session_id": "s"}


def result(usage: Fields, dollars: float, **models: tuple[int, int, int, int, float]) -> Fields:
    """The end of a prompt of Claude Code: costs and tokens, by model, since its process began."""
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens", "costUSD")
    used = {name.replace("_", "-"): dict(zip(names, counts, strict=True)) for name, counts in models.items()}
    told = {"subtype": "success", "is_error": False, "usage": usage, "total_cost_usd": dollars, "modelUsage": used}
    return {"type": "result", "session_id": "s", **told}


def two_prompts() -> list[Fields]:
    """Two prompts to one process of Claude Code, which also asks a small model."""
    first, second = cached(1_000, 0, 0, 80_000, 500), cached(100, 81_000, 0, 0, 200)
    small = (700, 0, 0, 100, 0.0012)
    return [
        line(1, first),
        result(first, 0.4917, claude_sonnet_4_5=(1_000, 0, 80_000, 500, 0.4905), claude_haiku_4_5=small),
        line(2, second),
        result(second, 0.5193, claude_sonnet_4_5=(1_100, 81_000, 80_000, 700, 0.5181), claude_haiku_4_5=small),
    ]


def graph() -> list[Any]:
    """A run of LangGraph whose middleware asks for a summary before the answer."""

    def ai(name: str, model: str, read: int, written: int) -> Fields:
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        metadata = {"model_name": model, "model_provider": "anthropic"}
        return {"type": "ai", "id": name, "content": "Baked.", "usage_metadata": usage, "response_metadata": metadata}

    human = {"type": "human", "id": "h1", "content": "Bake"}
    node = "SummarizationMiddleware.before_model"
    task = {"langgraph_node": node, "langgraph_checkpoint_ns": f"{node}:1"}
    inner = {"run_id": "c", "tags": ["nostream"], "parent_ids": ["r", "n"], "metadata": task}
    root = {"name": "LangGraph", "run_id": "r", "parent_ids": []}
    summary = ai("s1", "claude-haiku-4-5", 40_000, 800)
    answer = {"messages": [human, ai("m1", "claude-sonnet-4-5", 2_000, 300)]}
    return [
        {"event": "on_chain_start", **root, "data": {}},
        {"event": "on_chat_model_end", **inner, "data": {"output": summary}},
        {"event": "on_chain_end", **root, "data": {"output": answer}},
    ]


def steps() -> list[Fields]:
    """A run of the AI SDK, which tells the tokens of each step, and a cost of the second."""
    call = {"toolCallId": "c1", "toolName": "weigh"}
    text = [{"type": f"text-{kind}", "id": "t"} for kind in ("start", "delta", "end")]
    text[1]["delta"] = "Baked."
    return [
        {"type": "start", "messageId": "m1"},
        {"type": "start-step"},
        {"type": "tool-input-available", **call, "input": {}},
        {"type": "tool-output-available", "toolCallId": "c1", "output": "3 kg"},
        {"type": "data-sys-usage", "data": {"inputTokens": 8_000, "outputTokens": 40, "cachedInputTokens": 6_000}},
        {"type": "finish-step"},
        {"type": "start-step"},
        *text,
        {"type": "data-sys-usage", "data": {"inputTokens": 8_100, "outputTokens": 60, "cost": "0.0063"}},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


def broke_off() -> list[Any]:
    """Two calls: the first with its usage, the second broken off before it came."""
    identity = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "house-large"}
    call = {"index": 0, "id": "c1", "function": {"name": "weigh", "arguments": "{}"}}
    body = {"model": "house-large", "messages": [{"role": "user", "content": "Bake"}]}
    said = {"role": "assistant", "content": None, "tool_calls": [{**call, "type": "function"}]}
    more = {
        **body,
        "messages": [*body["messages"], said, {"role": "tool", "tool_call_id": "c1", "content": "12345678"}],
    }
    usage = {"prompt_tokens": 1_000, "completion_tokens": 50, "total_tokens": 1_050}
    return [
        {"object": "turnmill.request", "request": body},
        {**identity, "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]},
        {**identity, "choices": [], "usage": usage},
        {"object": "turnmill.request", "request": more},
        {**identity, "choices": [{"index": 0, "delta": {"content": "ten chars."}, "finish_reason": None}]},
    ]


def failed() -> list[Fields]:
    """A call that an error ends after its input was counted."""
    start, block, *_ = messages_call("claude-haiku-4-5", cached(30_000, 0, 0, 0, 1))
    error = {"type": "overloaded_error", "message": "Overloaded"}
    return [asked("Bake"), start, block, {"type": "error", "error": error}]


def over_midnight() -> list[Fields]:
    """Two calls of one turn, the first in October, the second in November."""
    result: Fields = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "3 kg"}]}
    again = asked("Bake")
    again["request"]["messages"] += [{"role": "assistant", "content": [TOOL]}, result]
    first = messages_call("claude-haiku-4-5", cached(4_000, 0, 0, 0, 100), block=TOOL)
    return [asked("Bake"), *first, again, *messages_call("claude-haiku-4-5", cached(5_000, 0, 0, 0, 200))]


READ: Fields = cached(30_000, 0, 0, 0, 100)
COMPACTED: Fields = {
    "input_tokens": 23_000,
    "output_tokens": 1_000,
    "iterations": [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
    ],
}
WRITES: Fields = {"ttl_30m_tokens": 10_000, "ttl_12h_tokens": 20_000}
CACHES: Fields = {"cached_tokens": 0, "cache_write_tokens": 30_000, "cache_write_tokens_details": WRITES}
THOUGHT: Fields = {
    "input_tokens_details": {"cached_tokens": 40_000},
    "output_tokens_details": {"reasoning_tokens": 4_000},
}
SEARCH: Fields = {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "rye"}}
FILES: Fields = {"type": "file_search_call", "status": "completed", "queries": ["rye"]}
SOUND: Fields = {
    "promptTokenCount": 10_200,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 30,
    "totalTokenCount": 10_250,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 200}, {"modality": "AUDIO", "tokenCount": 10_000}],
}
LONG: Fields = {
    "promptTokenCount": 250_000,
    "cachedContentTokenCount": 100_000,
    "candidatesTokenCount": 1_000,
    "totalTokenCount": 251_000,
}
WEB: Fields = {"webSearchQueries": ["rye"], "groundingChunks": [{"web": {"uri": "https://x.y", "title": "X"}}]}
GROUNDED: Fields = {"promptTokenCount": 3_000, "candidatesTokenCount": 500, "totalTokenCount": 3_500}
VOICES: Fields = {"prompt_tokens_details": {"audio_tokens": 900}, "completion_tokens_details": {"audio_tokens": 600}}


def month() -> list[Sent]:
    """All runs, in any order."""
    sonnet, opus, haiku = "claude-sonnet-4-5", "claude-opus-4-8", "claude-haiku-4-5"

    def anthropic(name: str, when: str, model: str, usage: Fields, **more: Any) -> Sent:
        return Sent(name, when, "anthropic", [asked("Bake"), *messages_call(model, usage)], **more)

    def openai(name: str, when: str, events: Any, **more: Any) -> Sent:
        return Sent(name, when, "openai-responses", events, "openai", **more)

    def of(name: str, when: str, who: str, read: int, written: int, tenant: str | None = None, **usage: Any) -> Sent:
        provider, _, model = who.partition(" ")
        return Sent(name, when, "openai-chat", chat(model, read, written, **usage), provider, tenant)

    batch: Fields = {"service_tier": "batch"}
    searched: Fields = {"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1}}
    through, deepseek = "openrouter anthropic/claude-sonnet-4.5", "deepseek deepseek-chat"
    house, unknown = "house house-large", "vllm-berlin mystery-9b"
    own: Fields = {"is_byok": True, "cost_details": {"upstream_inference_cost": 0.0285}}
    halves = sums("gpt-5.4", 100_000, 0), sums("gpt-5.4-mini", 1_000_000, 0)
    return [
        anthropic("september", "09-30T21:59:59", sonnet, cached(1_000, 50_000, 20_000, 80_000, 500)),
        anthropic("first", "09-30T22:00", sonnet, cached(10_000, 0, 0, 0, 1_000, **searched), tenant="acme"),
        anthropic("caches", "10-01T09:00", sonnet, cached(1_000, 50_000, 20_000, 80_000, 500)),
        anthropic("large", "10-02T09:00", sonnet, cached(150_000, 60_000, 0, 0, 2_000)),
        anthropic("batch", "10-03T09:00", sonnet, cached(100_000, 0, 0, 0, 10_000, **batch), tenant="globex"),
        anthropic("fast", "10-04T09:00", opus, cached(10_000, 0, 0, 5_000, 1_000, speed="fast")),
        anthropic("hurried", "10-04T10:00", haiku, cached(7_000, 0, 0, 0, 70, service_tier="priority")),
        anthropic("compacted", "10-05T09:00", opus, COMPACTED),
        openai("flex", "10-06T09:00", response("gpt-5.4", 100_000, 10_000, service_tier="flex"), tenant="acme"),
        openai("prior", "10-06T10:00", response("gpt-5.4", 100_000, 10_000, details=THOUGHT, service_tier="priority")),
        openai("searching", "10-07T09:00", response("gpt-5.4-mini", 20_000, 1_000, SEARCH, SEARCH, FILES)),
        openai("kept", "10-08T09:00", response("gpt-6-sol", 100_000, 10_000, details={"input_tokens_details": CACHES})),
        Sent("spoken", "10-09T09:00", "gemini", gemini("gemini-2.5-flash", SOUND), "google"),
        Sent("long", "10-09T10:00", "gemini", gemini("gemini-2.5-pro", LONG, groundingMetadata=WEB), "google"),
        Sent("grounded", "10-09T11:00", "google-adk", adk("gemini-3-pro-preview", GROUNDED), "google"),
        of("fee", "10-10T09:00", through, 4_500, 1_000, cost=0.001425, **own),
        of("free", "10-10T10:00", through, 4_500, 1_000, cost=0, **own),
        of("dear", "10-11T09:00", "perplexity sonar-pro", 1_000, 500, cost={"total_cost": 0.02}),
        of("told", "10-11T10:00", "deepinfra oven-9b", 1_000, 100, "acme", estimated_cost=0.0012),
        of("ticks", "10-11T11:00", "x-ai grok-4", 1_000, 52, cost_in_usd_ticks=37_800_000),
        of("by day", "10-12T12:00", deepseek, 10_000, 1_000, prompt_cache_hit_tokens=4_000),
        of("by night", "10-12T20:00", deepseek, 10_000, 1_000, prompt_cache_hit_tokens=4_000),
        of("hosted", "10-13T09:00", "vllm-berlin kimi-k2.5", 20, 198, "globex", total_tokens=623),
        of("unknown", "10-13T10:00", unknown, 5_000, 100),
        of("voices", "10-14T09:00", "openai gpt-audio", 1_000, 700, **VOICES),
        of("house", "10-14T10:00", house, 10_000, 1_000, prompt_tokens_details={"cached_tokens": 6_000}),
        of("house batch", "10-15T23:59:59", house, 10_001, 1_003, "acme", tier="batch"),
        of("house later", "10-16T00:00", house, 10_000, 1_000),
        of("unknown later", "10-17T10:00", unknown, 5_000, 100),
        Sent("cut off", "10-18T09:00", "openai-chat", broke_off(), "house", end="disconnected"),
        Sent("failed", "10-18T10:00", "anthropic", failed(), end="error"),
        Sent("retried", "10-18T11:00", "anthropic", [*failed(), asked("Bake"), *messages_call(haiku, READ)]),
        Sent("summed", "10-19T09:00", "ag-ui", ag_ui(5, sums("gpt-5.4", 300_000, 1_000))),
        Sent("two models", "10-19T10:00", "ag-ui", ag_ui(2, *halves)),
        Sent("prompts", "10-20T09:00", "claude-code", two_prompts()),
        Sent("summary", "10-21T09:00", "langgraph", graph()),
        Sent("steps", "10-22T09:00", "vercel-ai", steps(), "openai", info={"model_name": "gpt-5.4-mini"}),
        of("house acme", "10-23T09:00", house, 7_001, 13, "acme"),
        anthropic("summer", "10-25T00:30", haiku, cached(1_000, 0, 0, 0, 10)),  # half past two in Berlin
        anthropic("winter", "10-25T01:30", haiku, cached(2_000, 0, 0, 0, 20)),  # half past two again
        Sent("midnight", "10-31T22:59:30", "anthropic", over_midnight(), later=(7, 60_000)),
        anthropic("november", "10-31T23:00", haiku, cached(3_000, 0, 0, 0, 30)),
    ]


def sent(runs: Iterable[Sent]) -> list[Fields]:
    """Return the records of runs."""
    return [envelope for run in runs for envelope in run.envelopes()]


def forks() -> list[Fields]:
    """A conversation that goes on in another thread, with all that was said before; and a session with two forks."""
    again = [asked("Bake", "Baked.", "More"), *messages_call("claude-haiku-4-5", cached(600, 0, 0, 0, 20))]
    claude = Claude("oven")
    claude.ask("Heat the oven")
    claude.say("It is hot.")
    fork = forked_claude(claude, None, "fork")
    fork.ask("Bake bread")
    fork.say("Bread.")
    second = forked_claude(fork, None, "fork of the fork")
    second.ask("Bake cake")
    second.say("Cake.")
    homes = Homes()
    found = read([(Session(one.file, one.session, homes), in_october(one)) for one in (claude, fork, second)])
    assert not found.refused
    runs = [{name: value for name, value in run.items() if name != "said"} for run in found.runs]
    return [*Sent("another thread", "10-28T09:00", "anthropic", again).envelopes(), *runs]


def in_october(claude: Claude) -> list[Any]:
    """Return the lines, as of 29 October."""
    return [
        {**line, "timestamp": line["timestamp"].replace("2026-01-20", "2026-10-29")}
        for line in claude.lines
        if isinstance(line, dict)
    ]
