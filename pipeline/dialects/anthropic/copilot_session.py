"""Sessions of GitHub Copilot CLI (~/.copilot/session-state/SESSION/events.jsonl) -> runs, as of the Messages API.

The program speaks several APIs, and its lines are of none. Anthropic's has all that they say: the order of thoughts
and texts, the errors of tools, pictures in their results.

| line | what it does |
|---|---|
| `session.start`, `.resume`, `.context_changed`, `.model_change` | the session: folder, branch, version, model |
| `user.message` | a run begins; one that was said while the model works is part of the next request |
| `system.message`, what stands around a prompt, a `user.message` of a skill | beside the next request's messages |
| `session.usage_record` | usage of the response with its `apiCallId`; without it that has its output tokens alone |
| `assistant.turn_start` | the request of what was said till then |
| `assistant.message` | a response; one that came in chunks is one |
| `tool.execution_complete` | part of the next request |
| `session.binary_asset` | a file that later lines name |
| a line with `agentId`, or `parentToolCallId` | of a sub-agent, which is a thread of its own |
| `abort`, `session.shutdown`, `subagent.completed`, `subagent.failed` | the run is over; totals were counted before |
| `session.error` | the run has failed, unless the model answers all the same |
| progress and repetitions: those in SILENT, `model.*`, what is `ephemeral` | nothing |
| any other | SystemMessage data-app-copilot-cli.TYPE |

A rewind takes lines out of the file: what is said next continues the run before them. A fork begins with a copy of the
other session's lines; its own runs belong to that one's thread.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.dialects.model_calls import REQUEST
from pipeline.dialects.transcript import MAIN, MAX_HELD_LINES, Homes, RunEvent, RunOpened, RunOver, Step
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields, filled, present

# What other lines say, or what only shows progress.
SILENT: Final = frozenset(
    {"assistant.turn_start", "assistant.turn_end", "assistant.reasoning", "tool.execution_start", "hook.start"}
    | {"session.compaction_start", "session.usage_checkpoint", "subagent.configured"}
)
FACTS: Final = frozenset({"session.start", "session.resume", "session.context_changed", "session.model_change"})
SPAWNED: Final = frozenset({"subagent.started", "subagent.configured", "subagent.completed", "subagent.failed"})
ORDERED: Final = "anthropic-messages"  # whose blocks a line has in the model's order, calls by their ids alone
REASONS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
COUNTS: Final = {
    "cacheReadTokens": "cache_read_input_tokens",
    "cacheWriteTokens": "cache_creation_input_tokens",
    "outputTokens": "output_tokens",
    "reasoningTokens": "thinking_tokens",
}


@dataclass(slots=True, eq=False)
class Chain:
    """One conversation of a file. `asked`: its run's newest request without the messages; None before the first.

    `waits`: that request has no answer yet. `blocks`: the answer so far, while its last chunk is missing.
    """

    name: str
    agent: str = "agent"
    parent: str = MAIN
    thread: str | None = None
    run: str | None = None
    open: bool = False
    copied: bool = False
    settings: Fields = field(default_factory=dict)
    context: list[str] = field(default_factory=list)
    asked: Fields | None = None
    waits: bool = False
    words: list[Fields] = field(default_factory=list)
    words_at: int = 0
    blocks: list[Fields] = field(default_factory=list)
    later: list[Fields] = field(default_factory=list)


class Copilot:
    """The reader of a file."""

    dialect: Final = "anthropic"

    def __init__(self, file: str, name: str, homes: Homes, title: str | None = None) -> None:
        self._file = file
        self._session = name
        self._homes = homes
        self._title = title
        self._metadata: Fields = {}
        self._main = Chain(MAIN, "copilot")
        self._chains = {MAIN: self._main}
        self._assets: dict[str, Fields] = {}
        self._usages: dict[str, Fields] = {}  # of responses that are to come
        self._at = 0

    def read(self, line: Fields) -> Iterator[Step]:
        """Yield the steps of the next line."""
        kind, data = line["type"] + "", line["data"]
        self._at = max(self._at, epoch_ms(line.get("timestamp")) or 0)
        chain = self._chain(line, kind)
        match kind:
            case _ if kind in FACTS:
                self._describe(chain, kind, data)
            case "system.message":
                chain.settings[data["role"]] = data["content"]
            case "session.binary_asset":
                self._assets[data["assetId"]] = data
            case "session.usage_record":
                self._usages[str(data["usage"].get("apiCallId"))] = data["usage"]
            case "user.message":
                yield from self._prompt(chain, line["id"] + "", data)
            case "assistant.turn_start" if chain.open:
                yield from self._flush(chain)
            case "assistant.message":
                yield from self._answer(chain, line["id"] + "", data)
            case "tool.execution_complete" if chain.open and not data.get("isUserRequested"):
                self._hear(chain, result(data, self._assets))
            case "session.error" if chain.open:
                yield from self._fail(chain, data)
            case "abort":
                yield from self._end(chain, "aborted")
            case "session.shutdown":
                for other in self._chains.values():
                    yield from self._end(other, "complete")
            case "subagent.started":
                chain.agent = str(data.get("agentName") or chain.agent)
                chain.parent = str(data.get("parentId") or MAIN)
            case "subagent.completed":
                yield from self._end(chain, "aborted" if data.get("cancelled") else "complete")
            case "subagent.failed":
                yield from self._fail(chain, {**data, "message": data.get("error")})
                yield from self._end(chain, "complete")
            case _ if not (kind in SILENT or kind.startswith("model.") or line.get("ephemeral") is True):
                yield from self._beside(chain, {"type": f"copilot-cli.{kind}", "data": data})

    def _chain(self, line: Fields, kind: str) -> Chain:
        """Return the conversation of a line; versions that don't name sub-agents name the call that began them."""
        data = line["data"]
        name = line.get("agentId") or data.get("parentToolCallId") or (data["toolCallId"] if kind in SPAWNED else MAIN)
        return self._chains.setdefault(name, Chain(name))

    def _describe(self, chain: Chain, kind: str, data: Fields) -> None:
        context = data if kind == "session.context_changed" else data.get("context") or {}
        known = {"cwd": context.get("cwd"), "git_branch": context.get("branch")}
        known["copilot_version"] = data.get("copilotVersion")
        self._metadata |= {name: value for name, value in known.items() if isinstance(value, str)}
        self._session = str(data.get("sessionId") or self._session)
        model = data.get("newModel") or data.get("selectedModel")
        chain.settings |= present({"model": model, "reasoning_effort": data.get("reasoningEffort")})

    def _prompt(self, chain: Chain, run: str, data: Fields) -> Iterator[Step]:
        text = data["content"] + ""
        if str(data.get("source")).startswith("skill-"):  # what the program says in the user's name
            chain.context.append(text)
            return
        files = [content(file, self._assets) for file in data.get("attachments") or ()]
        around = str(data.get("transformedContent") or "").partition(text)[::2] if text else ()
        if not (chain.open and data.get("delivery") == "steering"):
            yield from self._begin(chain, run)
        chain.context += [piece.strip() for piece in around if piece.strip()]
        self._hear(chain, *([{"type": "text", "text": text}] if text else []), *files)

    def _begin(self, chain: Chain, run: str) -> Iterator[Step]:
        yield from self._end(chain, "complete")
        info: Fields = {"imported": True, "agent_name": "Copilot CLI", "provider_name": "github-copilot"}
        info["thread"] = {"metadata": dict(self._metadata)}
        if chain.name == MAIN:
            chain.thread = chain.thread or self._homes.thread(run) or self._session
            if self._title and chain.thread == self._session:  # not that of a fork
                info["thread"]["title"] = self._title
        else:
            session, parent = self._main.thread or self._session, self._chains.get(chain.parent, self._main)
            chain.thread = chain.thread or f"{session}/{chain.name}"
            info |= {"agent_name": chain.agent, "parent_thread_id": parent.thread or session}
            info |= present({"parent_run_id": parent.run})
        info |= present({"continues": chain.run})
        chain.run, chain.open, chain.asked, chain.waits = run, True, None, False
        chain.copied = not self._homes.claim(run, self._file, chain.thread)
        if not chain.copied:
            yield RunOpened(chain.name, chain.thread, run, chain.agent, info)

    def _answer(self, chain: Chain, run: str, data: Fields) -> Iterator[Step]:
        body = [*chain.blocks, *blocks(data)]
        event = answer(data, body, self._usages.get(str(data.get("apiCallId")), {}))
        if not chain.open:
            yield from self._begin(chain, run)
        whole = data.get("chunkIndex", 0) + 1 >= data.get("chunkCount", 1)
        chain.blocks = [] if whole else body
        if whole:
            self._usages.pop(str(data.get("apiCallId")), None)
            if chain.words or not chain.waits:
                yield from self._ask(chain)
            chain.waits = False
            yield from self._emit(chain, event, ends=event["stop_reason"] != "tool_use")

    def _hear(self, chain: Chain, *blocks: Fields) -> None:
        chain.words_at = chain.words_at if chain.words else self._at
        chain.words += blocks

    def _ask(self, chain: Chain) -> Iterator[Step]:
        """Yield a request of all that was said since the last one, with what else was asked where that is new."""
        body = filled({**chain.settings, "context": list(chain.context)})
        new = {} if body == chain.asked and not chain.waits else body
        at = chain.words_at if chain.words else self._at
        messages = [{"role": "user", "content": chain.words}] if chain.words else []
        chain.asked, chain.waits, chain.words = body, True, []
        yield from self._emit(chain, {"type": REQUEST, "request": {**new, "messages": messages}}, at)
        later, chain.later = chain.later, []
        for event in later:
            yield from self._emit(chain, event)

    def _flush(self, chain: Chain) -> Iterator[Step]:
        if chain.words or chain.asked is None:
            yield from self._ask(chain)

    def _fail(self, chain: Chain, error: Fields) -> Iterator[Step]:
        if chain.open:
            yield from self._flush(chain)
            yield from self._emit(chain, {"type": "error", "error": error})

    def _end(self, chain: Chain, end: str) -> Iterator[Step]:
        if chain.open:
            yield from self._flush(chain)
            chain.open, chain.blocks, chain.context = False, [], []
            if not chain.copied:
                yield RunOver(chain.name, end)

    def _beside(self, chain: Chain, event: Fields) -> Iterator[Step]:
        if chain.open and chain.asked is not None:
            yield from self._emit(chain, event)
        else:
            chain.later = [*chain.later, event][-MAX_HELD_LINES:]

    def _emit(self, chain: Chain, event: Fields, at: int | None = None, *, ends: bool = False) -> Iterator[Step]:
        if not chain.copied:
            yield RunEvent(chain.name, event, self._at if at is None else at, ends)


def answer(data: Fields, body: list[Fields], usage: Fields) -> Fields:
    """Return the whole answer that a line ends. `usage`: as another line has it."""
    calls = any(block["type"] == "tool_use" for block in body)
    known = {"id": data.get("apiCallId") or data.get("messageId"), "model": data.get("model")}
    known["usage"] = _counts(usage or data)
    known["stop_reason"] = REASONS.get(str(usage.get("finishReason")), "tool_use" if calls else "end_turn")
    return {"type": "message", "role": "assistant", "content": body, **{key: known[key] for key in known if known[key]}}


def blocks(data: Fields) -> list[Fields]:
    """Return what a line of the model says: in its order where the line has it."""
    calls = {call["toolCallId"]: _call(call) for call in data.get("toolRequests") or ()}
    reasoning = data.get("reasoningBlocks") or {}
    ordered = reasoning.get("orderedBlocks") if reasoning.get("provider") == ORDERED else None
    if ordered:
        merged = [calls.pop(block["id"], block) if block["type"] == "tool_use" else block for block in ordered]
        return [*merged, *calls.values()]
    thought = {"type": "thinking", "thinking": data.get("reasoningText"), "signature": data.get("reasoningOpaque")}
    text = {"type": "text", "text": data.get("content")}
    return [*([thought] if thought["thinking"] else []), *([text] if text["text"] else []), *calls.values()]


def result(data: Fields, assets: Mapping[str, Fields]) -> Fields:
    """Return the result of a call; it is an error where the tool failed."""
    output, failed = data.get("result") or {}, data["success"] is not True
    body: Any = (data.get("error") or {}).get("message") if failed else output.get("content")
    if files := output.get("binaryResultsForLlm"):
        body = [{"type": "text", "text": body}, *(content(file, assets) for file in files)]
    return {"type": "tool_result", "tool_use_id": data["toolCallId"], "content": body, "is_error": failed}


def content(file: Fields, assets: Mapping[str, Fields]) -> Fields:
    """Return the block of a file: its bytes, where the lines have them."""
    held = assets.get(str(file.get("assetId")), file)
    if not isinstance(held.get("data"), str):
        return {"type": "attachment", "attachment": file}
    media = str(held.get("mimeType"))
    source = {"type": "base64", "media_type": media, "data": held["data"]}
    return {"type": "image" if media.startswith("image/") else "document", "source": source}


def _call(call: Fields) -> Fields:
    given = call.get("arguments")
    given = {"input": given} if isinstance(given, str) else given
    return {"type": "tool_use", "id": call["toolCallId"], "name": call["name"] + "", "input": given}


def _counts(usage: Fields) -> Fields:
    """Return counts as the API has them: its input leaves out what caches held."""
    counts = {name: usage[key] for key, name in COUNTS.items() if usage.get(key)}
    if "inputTokens" in usage:
        cached = (usage.get("cacheReadTokens") or 0) + (usage.get("cacheWriteTokens") or 0)
        counts["input_tokens"] = max(0, usage["inputTokens"] - cached)
    return counts
