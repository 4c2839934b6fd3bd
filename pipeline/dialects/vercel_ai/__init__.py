"""The AI SDK's UI message stream, and its UI messages."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Format, Resume, Shown
from pipeline.dialects.deltas import shown
from pipeline.dialects.pydantic_ai.keys import NOT_EXECUTED
from pipeline.dialects.records import dialect
from pipeline.dialects.vercel_ai import events, export, history, request, side_events
from pipeline.dialects.wire_values import ends_by
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import EARLIER_REASONS, RETRIES, Carrier, Loss, unnamed

VERCEL_AI: Final = (
    unnamed("from the publisher's `run`, where it knows them"),
    EARLIER_REASONS,
    Loss(
        "what a tool's result says beside its content",
        "not there",
        drop.part_fields("tool-return", "metadata", "tool_kind", "retry"),
    ),
    RETRIES,
)

PYDANTIC_OVER_VERCEL: Final = (
    Loss(
        "why a call failed",
        "a text for all: whether the arguments, the tool or the user refused it, and the structured errors, are lost",
        drop.answers(drop.failure),
    ),
    Loss(
        "what is open when a run breaks off",
        "made-up results of calls, and an end for an open text: what is before them counts",
        drop.unsettled_steps,
    ),
    Loss(
        "the call of an earlier run that this one answers",
        "its id; name, denial and reason from the request body, where the run has it",
        drop.earlier_runs_calls,
    ),
    Loss(
        "what a tool tells the model beside its result",
        "not there; nor can it be told from what the user said meanwhile, which is there",
        drop.parts(lambda part: part["part_kind"] == "user-prompt"),
    ),
    Loss(
        "whether data for the client is an event of the application's, a tool's, or the SDK's own",
        "a system message for each",
        drop.events(lambda kind: kind.startswith("data-") and not kind.startswith("data-tp-")),
    ),
    Loss(
        "events for the program that runs the agent, like `deferred_tool_requests`",
        "not there",
        drop.events(lambda kind: kind.startswith("pydantic-ai.")),
    ),
    Loss("fields that are null", "not there", drop.nulls),
    Loss(
        "a file's id, provider and details",
        "not there",
        drop.part_fields("file", "id", "provider_name", "provider_details"),
    ),
    Loss(
        "where one text of a response ends and the next begins", "one text, with the first one's id", drop.joined_text
    ),
)

PYDANTIC_1_OVER_VERCEL: Final = (
    Loss("compaction", "not there", drop.parts(lambda part: part["part_kind"] == "compaction")),
    Loss(
        "calls that an output tool made needless, and their results",
        "dropped: their input never came whole",
        drop.calls_answered(NOT_EXECUTED),
    ),
    Loss("why the last response ended (1.20)", "`stop`", drop.finish_reasons(but_the_last=False)),
    Loss(
        "signature, id and provider of a thought (1.20)",
        "not there",
        drop.part_fields("thinking", "signature", "thinking_id", "provider_name", "provider_details"),
    ),
    Loss("files in a tool's result", "a text for each", drop.answers(drop.files_in_results)),
    Loss("that a tool returned nothing", "an empty object (1.107)", drop.answers(drop.nothing_is_empty)),
    Loss("where a response ends that no result follows (1.20)", "one response", drop.joined_responses),
    Loss("where the texts of two such responses meet", "one text", drop.joined_text),
    Loss("ids and details of joined texts", "the last one's", drop.part_fields("text", "id", "provider_details")),
)


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. Others have such types, too, but not with these ids beside them."""
    match event:
        case {"payload": _}:
            return False
        case {"type": "error"}:
            return "errorText" in event
        case {"type": str(kind)} if kind.startswith("tool-"):
            return "toolCallId" in event
        case {"type": str(kind)} if kind.startswith(("text-", "reasoning-")) and "id" not in event:
            return False
        case {"type": str(kind)} if kind.startswith("data-"):
            return True
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    match event:
        case {"type": "tool-input-available", "toolName": str(name)}:
            return [Shown("tool", name)]
    return shown(events.DELTAS, "type", event)


DIALECT: Final = dialect(
    __name__,
    unknown=side_events.unknown,
    begin=request.begin,
    history=request.repeated,
    finish=events.close,
    ended=ends_by("type", {"finish": "complete", "abort": "aborted", "start": None}),
    carriers=(
        Carrier("vercel-ai", VERCEL_AI),
        Carrier("pydantic-ai over vercel-ai", PYDANTIC_OVER_VERCEL, over="vercel-ai"),
        Carrier("pydantic-ai 1.x over vercel-ai", PYDANTIC_1_OVER_VERCEL, over="pydantic-ai over vercel-ai"),
    ),
    formats=(Format("vercel-ai", export.messages, history.READER),),
    resume=Resume(headers={"x-vercel-ai-ui-message-stream": "v1"}),  # `useChat({resume: true})`
)
