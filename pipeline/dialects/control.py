"""`turnmill.control` events of a run: its program's acknowledgements of commands. The same on all wires.

An acknowledged message is a user's part of the turn, after the response that was newest at that time. If the wire has
the message, too, its own part stays, and records who wrote it.
"""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from pipeline.assembly.agent_turn import STOPPED_BY
from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Dialect, Handler, Violation
from pipeline.assembly.parts import Message, Part
from topics.json_text import Fields
from turnmill.control.record import ANSWER, EVENT, STEER

STEERED_BY: Final = "meta:steered_by"  # of a part
ANSWERED_BY: Final = "meta:answered_by"


def heard(builder: Builder, event: Fields) -> None:
    """Record who stopped, steered or answered the run; the first command that stops it counts."""
    command = {"command_id": str(event["id"]), "by": str(event.get("by"))}
    if event.get("state") != "acknowledged":
        return
    if event.get("kind") == STEER:
        text = event.get("text")
        if not isinstance(text, str):
            raise Violation(f"a message to the run has no text: {text!r:.80}")
        part = Part({"part_kind": "user-prompt", "content": text, STEERED_BY: command}, done=True)
        if all(message.parts[0].fields[STEERED_BY] != command for _, message in builder.steers):
            builder.steers.append((builder.last_response(), Message("request", builder.at, [part], closed=True)))
    elif event.get("kind") == ANSWER:
        answers = builder.turn_fields.setdefault(ANSWERED_BY, [])
        if all(answer["command_id"] != command["command_id"] for answer in answers):
            answers.append({**command, "answer_id": str(event.get("answer_id")), "asked": event.get("asked")})
    elif STOPPED_BY not in builder.turn_fields:
        builder.turn_fields[STOPPED_BY] = command


def with_control(dialect: Dialect) -> Dialect:
    """Return a dialect that handles acknowledgements, whatever its wire; its own handlers never get them."""
    handlers: dict[str, Handler] = {**dialect.handlers, EVENT: heard}
    return replace(dialect, handlers=handlers, finish=partial(_finish, dialect))


def _finish(dialect: Dialect, builder: Builder, end: str) -> None:
    dialect.finish(builder, end)
    for response, message in () if builder.native else builder.steers:
        _insert_steering(builder, response, message)


def _insert_steering(builder: Builder, response: Message | None, message: Message) -> None:
    """Insert a user's message where it was acknowledged; if the wire has it, record there who wrote it."""
    part = message.parts[0]
    turns = [*(turn.messages for turn in builder.agent_turns), builder.messages]
    requests = [request for messages in turns for request in messages if request.kind == "request"]
    for asked in (asked for request in requests for asked in request.parts):
        same = (
            asked.fields["part_kind"] == "user-prompt"
            and _text_of_prompt(asked.fields.get("content")) == part.fields["content"]
        )
        if same and STEERED_BY not in asked.fields:
            asked.fields[STEERED_BY] = part.fields[STEERED_BY]
            return
    for messages in turns:
        if response is not None and response in messages:
            if response.request is None:
                response.request = message
                messages.insert(messages.index(response) + 1, message)
            else:
                response.request.parts.append(part)
            return
    messages = next((messages for messages in reversed(turns) if messages), turns[0])
    messages.insert(sum(other.at <= message.at for other in messages), message)


def _text_of_prompt(content: Any) -> Any:
    """Return the text of a prompt that consists of one text."""
    if not isinstance(content, list) or len(content) != 1:
        return content
    return content[0].get("text") if isinstance(content[0], dict) else content[0]
