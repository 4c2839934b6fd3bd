"""Claude Code's stream-json (dialect `claude-code`), as its command writes it and the Agent SDK reads it.

The command is `claude -p --output-format stream-json`.

| line | what it does |
|---|---|
| `assistant` | blocks of an API message: consecutive lines with one `message.id` are one response |
| `assistant` of model `<synthetic>`, `is_api_error_message` | SystemMessage `error`: no response |
| `user`, results of tools | `tool-return` after the response with the call; `tool_use_result` is kept with it |
| `supersedes` in it, `retracted_message_uuids` of `system` | these earlier lines are taken back: `meta:retracted` |
| `user`, a prompt | the user's turn; after a response a `user-prompt` |
| `user`, `isSynthetic`, slash commands | SystemMessage `custom:claude-code.note` |
| a line with `parent_tool_use_id` | the sub-agent's thread, `spawned_from` this one |
| `stream_event` | tokens and stop reason of a whole message; also the content of one that broke off |
| `system` `init` | the model; SystemMessage `custom:claude-code.init`, if it changed |
| `system` `task_started`, `task_notification` | the sub-agent's name and end; `custom:claude-code.SUBTYPE` |
| other `system` lines (hooks, `compact_boundary`, …), `rate_limit_event` | SystemMessage `custom:claude-code.SUBTYPE` |
| `control_request` `can_use_tool`, `hook_callback`; its answer | SystemMessage `custom:claude-code.control_…` |
| `result` | tokens, cost, denials; `success` without `is_error`: the run is complete, unless it goes on |
| `total_cost_usd`, `modelUsage` in it | the costs of responses, and calls beside them (`costs.py`) |
| `turnmill.sums`, before a run | the sums of the process in its last `result`: what the runs before have cost |
| `result`, twice in a row | the same line, even without a `uuid` |
| `keep_alive`, `tool_progress`, `status`, `thinking_tokens` and their like | nothing |
| `ai-title`, `custom-title`, `summary` of a transcript | the thread's title |
| any other | SystemMessage data-app-TYPE |

A repeated line with the same `uuid` counts once. Session transcripts look alike, and are refused: `turnmill import`
converts them to such lines (`transcript.py`), in runs that are marked as imported.
"""

from functools import wraps
from typing import Final

from pipeline.assembly.builder import Builder, End
from pipeline.assembly.dialect import Handler, Stretch, Violation, nothing
from pipeline.dialects.anthropic.keys import META as OF_BLOCK
from pipeline.dialects.claude_code import lines, partials
from pipeline.dialects.claude_code import session as sessions
from pipeline.dialects.claude_code.blocks import prompts_of_request
from pipeline.dialects.claude_code.costs import tell
from pipeline.dialects.claude_code.retractions import named, take_back
from pipeline.dialects.claude_code.session import PREFIX, Session, Thread, settle
from topics.json_text import Fields, list_of

SILENT: Final = frozenset(
    {"status", "session_state_changed", "thinking_tokens", "background_tasks_changed", "task_progress"}
)
UNSAID: Final = frozenset({"type", "subtype", "uuid", "session_id"})
MISSING: Final = frozenset({"meta:missing"})  # events missing from a run are missing from each of its threads
CONTROLS: Final = frozenset({"can_use_tool", "hook_callback"})
SETTLED: Final[dict[str, End]] = {"completed": "complete", "failed": "error", "killed": "aborted", "stopped": "aborted"}


def begin(builder: Builder) -> None:
    """Prepare for a run. The publisher's `run.request` may contain the user's prompt."""
    sessions.begin(builder)
    parts = prompts_of_request(builder.context.request)
    if parts:
        builder.user_turn(parts)


def system(builder: Builder, event: Fields) -> None:
    """Add a `system` line, which is not part of the conversation."""
    kind = event["subtype"] + ""
    session: Session = builder.scratch
    data = _data(event)
    if kind in SILENT:
        return
    session.compacted = session.compacted or kind == "compact_boundary"
    take_back(session, named(event))
    if kind == "init":
        _init(builder, session, event, data)
        builder.asked = {key: value for key, value in data.items() if key not in ("subtype", "uuid", "session_id")}
        return
    call_id = event.get("tool_use_id")
    if isinstance(call_id, str):
        if isinstance(event.get("subagent_type"), str):
            session.agents[call_id] = event["subagent_type"]
        if isinstance(event.get("status"), str):
            session.tasks[call_id] = event["status"]
    builder.system(f"{PREFIX}{kind}", data)


def result(builder: Builder, event: Fields) -> None:
    """End the work on one prompt; the run's last result is its end."""
    kind, failed = event["subtype"] + "", event.get("is_error") is True
    session: Session = builder.scratch
    if not session.is_new(event) or event == session.ended:
        return
    session.ended = event
    thread = session.main
    thread.shut()
    session.results.append(event)
    last = next((m for m in reversed(builder.messages) if m.kind == "response" and m not in thread.errors), None)
    reason = event.get("stop_reason")
    if last is not None and isinstance(reason, str) and "stop_reason" not in last.fields.get(OF_BLOCK, {}):
        lines.stopped(last, reason)
    data = _data(event)
    texts = [part.fields["content"] for part in (last.parts if last else ()) if part.fields.get("part_kind") == "text"]
    if texts and data.get("result") in (texts[-1], "".join(texts)):
        del data["result"]  # it is the answer
    builder.system(f"{PREFIX}result", {"subtype": kind, **data})
    stopped = str(event.get("terminal_reason")).startswith("aborted")  # somebody stopped the run
    builder.ended = "complete" if kind == "success" and not failed else "aborted" if stopped else "error"
    if builder.ended != "complete":
        errors = [event.get("result"), *list_of(event.get("errors"))]
        builder.error_text = next((text for text in errors if isinstance(text, str) and text), kind)


def control_request(builder: Builder, event: Fields) -> None:
    """Keep a request of the program to the application, if it is about permissions or hooks."""
    asked, name = event["request"], event["request_id"] + ""
    if asked["subtype"] in CONTROLS:
        session: Session = builder.scratch
        session.asked.add(name)
        builder.system(f"{PREFIX}control_request", _data(event))


def control_response(builder: Builder, event: Fields) -> None:
    """Keep the response to such a request."""
    session: Session = builder.scratch
    if event["response"]["request_id"] in session.asked:
        builder.system(f"{PREFIX}control_response", _data(event))


def beside(builder: Builder, event: Fields) -> None:
    """Add a line as a system message of its type."""
    builder.system(f"{PREFIX}{event['type']}", _data(event))


def reset(builder: Builder, event: Fields) -> None:
    """Keep the line, after which the sums in `result` lines begin anew."""
    session: Session = builder.scratch
    session.results.append(None)
    beside(builder, event)


def sums(builder: Builder, event: Fields) -> None:
    """Note the sums that the process had reached before this run."""
    session: Session = builder.scratch
    session.before = event


def title(builder: Builder, event: Fields) -> None:
    """Set the thread's title: a transcript's, or the title that its user chose."""
    text = event.get("customTitle") or event.get("aiTitle") or event.get("summary")
    if isinstance(text, str):
        builder.thread["title"] = text


def unknown(builder: Builder, event: Fields) -> None:
    """Keep a line of an unknown type: protocols grow."""
    kind = event["type"] + ""
    if "sessionId" in event:
        raise Violation(TRANSCRIPT)
    builder.system(f"data-app-{kind}", _data(event))


def finish(builder: Builder, end: str) -> None:
    """Set the ends before the turns are built. Only a `result` completes the run: the publisher's `end` does not."""
    session: Session = builder.scratch
    if builder.context.imported:
        end = _end_of_transcript(builder, end)
    elif end == "complete" and builder.ended != "complete":
        end = "disconnected"
    for thread in session.threads.values():
        how = end if not thread.name else _end_of(session, thread, end)
        _close(thread, complete=how == "complete")
        if thread.name:
            thread.builder.notes |= {key: builder.notes[key] for key in MISSING if key in builder.notes}
            thread.builder.end_turn(how)
    settle(builder, session.main, [result.get("usage") for result in session.results if result])
    tell(builder, session)
    if end == "disconnected" or (builder.context.imported and not builder.facts_only):
        builder.end_turn(end)


def _end_of_transcript(builder: Builder, end: str) -> str:
    """Return how an imported run ended, by its last message, since no end was recorded.

    Files of older versions don't say why a response stopped: a response without open calls counts as an answer.
    """
    responses = [message for message in builder.messages if message.kind == "response"]
    builder.facts_only = not responses and not builder.user_turns
    if builder.facts_only:
        builder.messages = []
        return "complete"
    if end not in ("complete", "disconnected", "timeout"):
        return end
    if builder.ended in ("aborted", "error"):
        return builder.ended
    last = next((message for message in reversed(builder.messages) if message.kind != "system"), None)
    answered = last is not None and last.kind == "response" and "stop_reason" not in last.fields.get(OF_BLOCK, {})
    calls = any(part.fields.get("part_kind") == "tool-call" for part in (last.parts if last else ()))
    return "complete" if builder.ended == "complete" or (answered and not calls) else "disconnected"


def _close(thread: Thread, *, complete: bool) -> None:
    builder = thread.builder
    open_response = builder.response
    if complete:
        errors = {id(message) for message in thread.errors}
        builder.messages = [message for message in builder.messages if id(message) not in errors]
        builder.close_response()
        return
    for message in thread.torn:
        message.closed = False
    if open_response is not None and not thread.streams and open_response.request is not None:
        open_response.closed = True  # complete_cycles checks whether all its calls were answered


def _end_of(session: Session, thread: Thread, end: str) -> str:
    """Return how a sub-agent ended: as its task did; an answered one is complete, however the run ends."""
    settled = SETTLED.get(session.tasks.get(thread.name, ""))
    if session.main.builder.lossy:
        return end
    if settled is not None:
        return settled
    for other in session.threads.values():
        response, call = other.builder.calls.get(thread.name, (None, None))
        answers = response.request.parts if response is not None and response.request is not None else []
        args = call.fields.get("args") if call is not None else None
        is_behind = isinstance(args, dict) and args.get("run_in_background") is True
        if not is_behind and any(part.fields.get("tool_call_id") == thread.name for part in answers):
            return "complete"
    return end


def _init(builder: Builder, session: Session, event: Fields, data: Fields) -> None:
    """Begin a turn of the program: for each prompt, and after a background task."""
    session.main.shut()
    session.ended = builder.ended = None
    context, model = builder.context, event.get("model")
    if context.model_name is None and isinstance(model, str):
        context.model_name = model
    if context.external_id is None and isinstance(event.get("session_id"), str):
        context.external_id = event["session_id"]
    if isinstance(folder := data.get("cwd"), str):
        builder.thread["metadata"] = {**builder.thread.get("metadata", {}), "cwd": folder}
    if data != session.init:
        session.init = data
        builder.system(f"{PREFIX}init", {**data, "session_id": event.get("session_id")})


def _data(event: Fields) -> Fields:
    return {key: value for key, value in event.items() if key not in UNSAID}


TRANSCRIPT: Final = "this is a session transcript (~/.claude/projects): `turnmill import --from claude-code` reads it"


def _line(handle: Handler) -> Handler:
    """Wrap a handler of lines that also occur in transcripts."""

    @wraps(handle)
    def handler(builder: Builder, event: Fields) -> None:
        if "sessionId" in event:
            raise Violation(TRANSCRIPT)
        handle(builder, event)

    return handler


HANDLERS: Final[dict[str, Handler]] = {
    "assistant": _line(lines.assistant),
    "user": _line(lines.user),
    "stream_event": partials.stream_event,
    "system": _line(system),
    "result": result,
    "turnmill.sums": sums,
    "control_request": control_request,
    "control_response": control_response,
    "rate_limit_event": beside,
    "conversation_reset": reset,
    **dict.fromkeys(("ai-title", "custom-title", "summary"), title),
    **dict.fromkeys(("keep_alive", "tool_progress", "auth_status", "prompt_suggestion", "transcript_mirror"), nothing),
    "control_cancel_request": nothing,
}
STRETCHES: Final[dict[str | None, Stretch]] = {"stream_event": partials.stream_events}
