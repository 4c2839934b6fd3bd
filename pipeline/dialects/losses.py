"""What each wire can't carry of what a turn says, and the hash of what several wires share.

A row says what is lost and what is there in its place; its `drop` takes it out of a turn's essence, so that a run has
one hash whichever of the wires it came over. What is in no essence (times, tokens, `meta:*`) is in no row.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from pipeline.turns import essence_filters as without
from pipeline.turns.canonical import essence, jcs
from pipeline.turns.essence_filters import Drop

NOT_EXECUTED: Final = "Tool not executed - a final result was already processed."


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that a wire can't carry. `becomes`: what is there in its place."""

    what: str
    becomes: str
    drop: Drop


AGENTS_SDK: Final = (
    Loss(
        "provider, response id",
        "not there, unless the publisher knows the provider",
        without.response_fields("provider_name", "provider_response_id"),
    ),
    Loss(
        "why a response ended, but the last one",
        "`tool_call` where it has calls, else `stop`",
        without.finish_reasons(but_the_last=True),
    ),
    Loss(
        "thinking, files, the provider's own tools",
        "not there; an event of an unknown name is kept as a system message",
        without.parts(
            lambda part: part["part_kind"] in ("thinking", "file") or part["part_kind"].startswith("builtin-")
        ),
    ),
    Loss(
        "ids of texts",
        "not there; messageId serves only to tell messages apart",
        without.part_fields("text", "id", "provider_name", "provider_details"),
    ),
)

PI_AGENT: Final = (
    Loss(
        "files of the model, the provider's own tools",
        "pi has no such content",
        without.parts(lambda part: part["part_kind"] == "file" or part["part_kind"].startswith("builtin-")),
    ),
    Loss("sources", "pi has none", without.events(lambda kind: kind.startswith("source."))),
)

PI_PROXY: Final = (
    Loss(
        "model, provider, response id",
        "model and provider from the request body, where the run has it",
        without.response_fields("model_name", "provider_name", "provider_response_id"),
    ),
    Loss("provider of a thought", "the request body's", without.part_fields("thinking", "provider_name")),
    Loss(
        "redacted thinking (before 1.5)",
        "not there",
        without.parts(lambda part: part["part_kind"] == "thinking" and part.get("thinking_id") == "redacted_thinking"),
    ),
)

PYDANTIC_AI: Final = (
    Loss(
        "how a run without result ended",
        "the publisher says it (`end`); the error's text stays with the application",
        lambda turn: without.events(lambda kind: kind == "error")(without.turn_fields("interruption")(turn)),
    ),
    Loss(
        "sources",
        "citations of a text stay in the text part; what a tool puts into its result's metadata stays there",
        without.events(lambda kind: kind.startswith("source.")),
    ),
)

EVENTS_ALONE: Final = (
    Loss(
        "model, provider, response id",
        "model and provider from the publisher's `run`, where it knows them",
        without.response_fields("model_name", "provider_name", "provider_response_id"),
    ),
    Loss(
        "why a response ended",
        "`tool_call` where it has calls, else `stop`",
        without.finish_reasons(but_the_last=False),
    ),
    Loss(
        "that the answer was refused and the model asked again, where no tool is involved",
        "the second response follows on the first",
        without.parts(without.is_untold_retry),
    ),
)

VERCEL_AI: Final = (
    Loss(
        "model, provider, response id",
        "from the publisher's `run`, where it knows them",
        without.response_fields("model_name", "provider_name", "provider_response_id"),
    ),
    Loss(
        "why a response ended, but the last one",
        "`tool_call` where it has calls, else `stop`",
        without.finish_reasons(but_the_last=True),
    ),
    Loss(
        "what a tool's result says beside its content",
        "not there",
        without.part_fields("tool-return", "metadata", "tool_kind", "retry"),
    ),
    Loss(
        "that the answer was refused and the model asked again, where no tool is involved",
        "the second response follows on the first",
        without.parts(without.is_untold_retry),
    ),
)

PYDANTIC_OVER_VERCEL: Final = (
    Loss(
        "why a call failed",
        "a text for all: whether the arguments, the tool or the user refused it, and the structured errors, are lost",
        without.answers(without.failure),
    ),
    Loss(
        "what is open when a run breaks off",
        "made-up results of calls, and an end for an open text: what is before them counts",
        without.unsettled_steps,
    ),
    Loss(
        "the call of an earlier run that this one answers",
        "its id; name, denial and reason from the request body, where the run has it",
        without.earlier_runs_calls,
    ),
    Loss(
        "what a tool tells the model beside its result",
        "not there; nor can it be told from what the user said meanwhile, which is there",
        without.parts(lambda part: part["part_kind"] == "user-prompt"),
    ),
    Loss(
        "whether data for the client is an event of the application's, a tool's, or the SDK's own",
        "a system message for each",
        without.events(lambda kind: kind.startswith("data-") and not kind.startswith("data-tp-")),
    ),
    Loss(
        "events for the program that runs the agent, like `deferred_tool_requests`",
        "not there",
        without.events(lambda kind: kind.startswith("pydantic-ai.")),
    ),
    Loss("fields that are null", "not there", without.nulls),
    Loss(
        "a file's id, provider and details",
        "not there",
        without.part_fields("file", "id", "provider_name", "provider_details"),
    ),
    Loss(
        "where one text of a response ends and the next begins",
        "one text, with the first one's id",
        without.joined_text,
    ),
)

PYDANTIC_1_OVER_VERCEL: Final = (
    Loss("compaction", "not there", without.parts(lambda part: part["part_kind"] == "compaction")),
    Loss(
        "calls that an output tool made needless, and their results",
        "dropped: their input never came whole",
        without.calls_answered(NOT_EXECUTED),
    ),
    Loss("why the last response ended (1.20)", "`stop`", without.finish_reasons(but_the_last=False)),
    Loss(
        "signature, id and provider of a thought (1.20)",
        "not there",
        without.part_fields("thinking", "signature", "thinking_id", "provider_name", "provider_details"),
    ),
    Loss("files in a tool's result", "a text for each", without.answers(without.files_in_results)),
    Loss("that a tool returned nothing", "an empty object (1.107)", without.answers(without.nothing_is_empty)),
    Loss("where a response ends that no result follows (1.20)", "one response", without.joined_responses),
    Loss("where the texts of two such responses meet", "one text", without.joined_text),
    Loss("ids and details of joined texts", "the last one's", without.part_fields("text", "id", "provider_details")),
)

# Wire -> its rows. What stands over another wire lacks what the other one lacks, too.
LOSSES: Final[dict[str, tuple[Loss, ...]]] = {
    "agents-sdk": AGENTS_SDK,
    "pi-agent": PI_AGENT,
    "pi-proxy": PI_PROXY,
    "pydantic-ai": PYDANTIC_AI,
    "pydantic-ai (events alone)": EVENTS_ALONE,
    "thread-protocol": (),
    "vercel-ai": VERCEL_AI,
    "pydantic-ai over vercel-ai": PYDANTIC_OVER_VERCEL,
    "pydantic-ai 1.x over vercel-ai": PYDANTIC_1_OVER_VERCEL,
}
OVER: Final = {
    "pi-proxy": "pi-agent",
    "pydantic-ai (events alone)": "pydantic-ai",
    "pydantic-ai over vercel-ai": "vercel-ai",
    "pydantic-ai 1.x over vercel-ai": "pydantic-ai over vercel-ai",
}


def shared_essence(turn: dict[str, Any], *wires: str) -> dict[str, Any]:
    """What is hashed of a turn, without what any of these wires can't carry: names in LOSSES, or KeyError."""
    lossy = {name for wire in wires for name in _with_those_below(wire)}
    said = essence(turn)
    for wire, losses in LOSSES.items():  # in this order, whatever the caller's: some rows build on those before
        for loss in losses if wire in lossy else ():
            said = loss.drop(said)
    return said


def _with_those_below(wire: str) -> list[str]:
    if wire not in LOSSES:
        raise KeyError(wire)
    return [wire, *(_with_those_below(OVER[wire]) if wire in OVER else ())]


def shared_hash(turn: dict[str, Any], *wires: str) -> str:
    """Hex SHA-256 of `shared_essence`: alike where a run says the same on what all of these wires carry."""
    return hashlib.sha256(jcs(shared_essence(turn, *wires))).hexdigest()
