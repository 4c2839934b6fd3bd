"""Parses an Event of ADK: its speaker, its parts, and its other fields; and a run's memory of its Events."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message
from pipeline.dialects import ends
from pipeline.dialects.google_adk.parts import parts_of, spelled
from pipeline.dialects.wire_values import is_number
from pipeline.turns.tokens import tier_of
from topics import json_text
from topics.json_text import Fields, objects

USER: Final = "user"
# Fields about the Event itself; the others belong to its content.
IDENTITY: Final = ("id", "invocationId", "author", "branch", "timestamp")
SILENT: Final = frozenset(
    {*IDENTITY, "content", "partial", "actions", "usageMetadata", "modelVersion", "nodeInfo", "longRunningToolIds"}
    | {"turnComplete", "interrupted", "finishReason", "errorCode", "errorMessage", "avgLogprobs", "interactionStatus"}
    | {"isolationScope"}
)
USAGE: Final = {
    "thinking_tokens": "thoughtsTokenCount",
    "cache_read_tokens": "cachedContentTokenCount",
    "total_tokens": "totalTokenCount",
}
COUNTED: Final = frozenset(
    {*USAGE.values(), "promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "responseTokenCount"}
)
# Lists of counts by modality -> the count that each is part of. Text, video and documents have no count of their own.
BY_MODALITY: Final = {
    "promptTokensDetails": "input_{}_tokens",
    "toolUsePromptTokensDetails": "input_{}_tokens",
    "candidatesTokensDetails": "output_{}_tokens",
    "responseTokensDetails": "output_{}_tokens",
    "cacheTokensDetails": "cache_{}_read_tokens",
}
TIERS: Final = {"ON_DEMAND_FLEX": "flex", "ON_DEMAND_PRIORITY": "priority", "ON_DEMAND_OFFPEAK": "offpeak"} | {
    "PROVISIONED_THROUGHPUT": "provisioned"
}
BY_PROMPT: Final = re.compile(r"(.*/)?gemini-[12]\b")  # models whose searches Google bills once for a prompt


@dataclass(frozen=True, slots=True)
class Event:
    """An Event whose fields were checked.

    `fields`: all of them in camelCase; `parts`: the non-empty ones, by their index; `usage`: None if it has no tokens.
    """

    id: str
    author: str
    branch: str
    is_fragment: bool
    fields: Fields
    parts: dict[int, Fields]
    actions: Fields
    usage: Fields | None

    @property
    def voice(self) -> str:
        """The speaker: an agent may run on several branches at once."""
        return f"{self.author}\n{self.branch}"

    @property
    def identity(self) -> Fields:
        """The fields from which the Event is restored."""
        return {key: self.fields[key] for key in IDENTITY if key in self.fields}


def read(raw: Any) -> Event:
    """Return an Event in either spelling. Raises Violation or TypeError if it is malformed."""
    fields = spelled(raw)
    if not fields.keys() & {"author", "content", "actions", "invocationId"}:
        raise Violation("an Event of ADK has an author, a content or actions")
    author, branch, identity = (fields.get(key, "") + "" for key in ("author", "branch", "id"))
    actions = spelled(fields["actions"]) if "actions" in fields else {}
    filled = {key: value for key, value in actions.items() if value not in ({}, [], "", False)}
    is_fragment, parts = fields.get("partial") is True, parts_of(fields.get("content"))
    usage = usage_of(spelled(fields["usageMetadata"])) if "usageMetadata" in fields else None
    if usage is not None and "groundingMetadata" in fields:
        usage |= searches([fields["groundingMetadata"]], fields.get("modelVersion"))
    return Event(identity, author, branch, is_fragment, fields, parts, filled, usage)


def thoughts_are_apart(counts: Fields) -> bool:
    """Return True if there are more thoughts than tokens of candidates, which then don't contain them."""
    thoughts: Any = counts.get("thoughtsTokenCount")
    spoken: Any = counts.get("candidatesTokenCount")
    return is_number(thoughts) and bool(thoughts) and (not is_number(spoken) or thoughts > spoken)


def usage_of(counts: Fields, *, apart: bool = False) -> Fields | None:
    """Return the tokens of a `usageMetadata`: input with tools' results, output with thoughts; None if it has none.

    Gateways may count the thoughts with the candidates, as the total shows. `apart`: earlier counts showed that this
    server does not.
    """
    sums = {
        "input_tokens": ("promptTokenCount", "toolUsePromptTokenCount"),
        "output_tokens": ("candidatesTokenCount", "responseTokenCount", "thoughtsTokenCount"),
    }
    usage: Fields = {}
    for name, keys in sums.items():
        known = [counts[key] for key in keys if is_number(counts.get(key))]
        if known:
            usage[name] = sum(known)
    usage |= {name: counts[key] for name, key in USAGE.items() if is_number(counts.get(key))}
    inside = bool(usage.get("thinking_tokens")) and not apart and not thoughts_are_apart(counts)
    if inside and usage.get("total_tokens") == usage.get("input_tokens", 0) + counts["candidatesTokenCount"]:
        usage["output_tokens"] = counts["candidatesTokenCount"]
    for key, name in BY_MODALITY.items():
        for entry in objects(counts.get(key)):
            modality, count = str(entry.get("modality")).lower(), entry.get("tokenCount", entry.get("token_count"))
            if modality in ("audio", "image") and is_number(count):
                usage[name.format(modality)] = usage.get(name.format(modality), 0) + count
    tier = TIERS.get(str(counts.get("trafficType")).upper()) or tier_of({"service_tier": counts.get("serviceTier")})
    if tier is not None and tier != "unspecified":
        usage["service_tier"] = tier
    rest = {key: value for key, value in counts.items() if key not in COUNTED}
    return {**usage, **rest} or None


def searches(grounding: Sequence[Any], model: Any) -> Fields:
    """Return the searches that Google bills for an answer with these `groundingMetadata`; {} if there are none.

    Gemini 3 and later are billed for each query that is not empty, and the same query once; Gemini 2 and 1 once for a
    prompt with a page of the web in its sources. Searches of maps have another price, and are not counted.
    """
    groundings = [spelled(each) for each in grounding if isinstance(each, dict)]
    lists = [value for each in groundings if isinstance(value := each.get("webSearchQueries"), list)]
    queries = {query for some in lists for query in some if isinstance(query, str) and query.strip()}
    kinds = {str(kind) for each in groundings for chunk in objects(each.get("groundingChunks")) for kind in chunk}
    if not queries or ("maps" in kinds and "web" not in kinds):
        return {}
    if isinstance(model, str) and BY_PROMPT.match(model):
        return {"web_searches": 1} if "web" in kinds else {}
    return {"web_searches": len(queries)}


def finish_reason(fields: Fields) -> str | None:
    """Return why the model stopped; None if its parts show it. A blocked prompt has only an error code."""
    reason = fields.get("finishReason", fields.get("errorCode"))
    told = ends.finish(ends.GEMINI, reason.upper()) if isinstance(reason, str) else None
    return None if told == "stop" else told


@dataclass(slots=True, eq=False)
class Fragments:
    """An agent's fragments since its last whole event. `event_id`: that of the newest fragment."""

    message: Message
    event_id: str


@dataclass(slots=True, eq=False)
class Memory:
    """The memory of a run (`builder.scratch`).

    `open`: fragments by voice (an agent on its branch). `seen`: digests of whole events' contents. `counted`: ids of
    the events whose tokens are counted. `spent`: by branch, the author, the invocation and the counts of the newest
    tokens. `code`: by voice, the id of the newest code that was run. `error`: the message of the newest error event.
    """

    open: dict[str, Fragments] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    spent: dict[str, tuple[str, Any, Fields]] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    error: str | None = None

    def is_new(self, event_id: str, *content: Any) -> bool:
        """Return True if an event with this id has this content for the first time, or has no id."""
        if not event_id:
            return True
        digest = hashlib.blake2b(json_text.dumps([event_id, *content]).encode(), digest_size=16).digest()
        if digest in self.seen:
            return False
        self.seen.add(digest)
        return True
