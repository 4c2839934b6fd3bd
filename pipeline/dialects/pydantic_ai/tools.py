"""Tools in Pydantic AI's event stream: executed calls, their results, and results without an event.

Results come as they complete; messages contain them in the order in which the calls were begun: 1.x begins calls of
unknown tools after the others. If output tools (those whose call is the run's answer) were executed before the
functions, their results come first: 1.x always does so.
"""

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.pydantic_ai.keys import IMPLIED, NOT_EXECUTED, OF_CALL, PROCESSED
from pipeline.dialects.pydantic_ai.messages import part
from pipeline.dialects.pydantic_ai.response import FINAL, STEP, close
from topics.json_text import Fields

# Keys of the dialect's state (builder.scratch):
RESUMED: Final = "resumed"  # ids of an earlier run's calls that this run answers, in order
OUTPUTS: Final = "outputs"  # names of output tools


def final_result(builder: Builder, event: Fields) -> None:
    """Note the run's answer, perhaps a call of an output tool. It is not the end: tools may still run."""
    name, call_id = event.get("tool_name"), event.get("tool_call_id")
    if isinstance(name, str) and isinstance(call_id, str):
        builder.scratch.setdefault(OUTPUTS, set()).add(name)
        builder.scratch[FINAL] = call_id


def function_called(builder: Builder, event: Fields) -> None:
    """Add a call that the SDK executes: this event contains all of it, and replaces the deltas."""
    fields = part(event["part"])
    call_id = fields["tool_call_id"]
    close(builder)
    step: list[str] = builder.scratch.setdefault(STEP, [])
    response = builder.last_response()
    if response is None:  # a call of an earlier run
        builder.scratch.setdefault(RESUMED, []).append(call_id)
    elif made := calls_of(response, call_id):
        call = made[min(step.count(call_id), len(made) - 1)]
        call.fields, call.done = fields, True
    elif not builder.lossy:
        response.parts.append(Part(fields, done=True))
    step.append(call_id)


def output_called(builder: Builder, event: Fields) -> None:
    """Add a call of an output tool."""
    function_called(builder, event)
    builder.scratch.setdefault(OUTPUTS, set()).add(event["part"]["tool_name"])


def returned(builder: Builder, event: Fields) -> None:
    """Add a call's result to the request after its response. Some versions send one twice: the last counts."""
    fields = part(event["part"] if "part" in event else event["result"])
    call_id, content = fields["tool_call_id"], event.get("content")
    response = builder.last_response()
    # Without a response, an earlier run made the call, unless the response was lost.
    made = calls_of(response, call_id) if response is not None else []
    if not made and (builder.lossy or response is not None):
        raise Violation(f"result of {call_id!r}, which the response before it did not call")
    close(builder)
    request = answering(builder)
    known = [part for part in request.parts if part.fields.get("tool_call_id") == call_id]
    if known and len(known) >= len(made):
        known[-1].fields = fields
        return
    request.parts.append(Part(fields, done=True))
    if content is not None:
        prompt = part({"part_kind": "user-prompt", "content": content})
        request.parts.append(Part({**prompt, OF_CALL: call_id}, done=True))
    in_order(builder, response, request)


def calls_of(response: Message, call_id: str) -> list[Part]:
    """Return the calls with this id in this response: mostly one."""
    calls = (part for part in response.parts if part.fields["part_kind"] == "tool-call")
    return [part for part in calls if part.fields.get("tool_call_id") == call_id]


def answering(builder: Builder) -> Message:
    """Return the request after the newest response, or the request with which the run starts."""
    if builder.last_response() is None:
        for message in builder.messages:
            if message.kind == "request":
                return message
    return builder.request_after(None)


def in_order(builder: Builder, response: Message | None, request: Message) -> None:
    """Sort the request: results in the order in which their calls were begun, then prompts of tools, then the rest."""
    ids: list[str] = builder.scratch.get(RESUMED, [])
    outputs: set[str] = set()
    if response is not None:
        calls = [part.fields for part in response.parts if part.fields["part_kind"] == "tool-call"]
        ids = [call["tool_call_id"] for call in calls]
        names = builder.scratch.get(OUTPUTS, ())
        outputs = {call["tool_call_id"] for call in calls if call["tool_name"] in names}
        step = builder.scratch.get(STEP, [])
        if step and step[0] not in outputs:
            outputs = set()
        made, executed = set(ids), set(step)
        begun = iter([call_id for call_id in step if call_id in made])
        ids = [next(begun, call_id) if call_id in executed else call_id for call_id in ids]
    rank = {call_id: (call_id not in outputs, number) for number, call_id in enumerate(ids)}

    def order(part: Part) -> tuple[int, tuple[bool, int]]:
        fields = part.fields
        group = 0 if "tool_call_id" in fields else 1 if OF_CALL in fields else 2
        return group, rank.get(str(fields.get("tool_call_id", fields.get(OF_CALL))), (True, len(rank)))

    request.parts.sort(key=order)


def add_implied(builder: Builder) -> None:
    """Add results of a complete run that 1.x writes into its messages without sending an event.

    They answer the output tool whose call was the answer, and the functions that were therefore not run.
    """
    response, final = builder.last_response(), builder.scratch.get(FINAL)
    final_calls = calls_of(response, final) if response is not None and final is not None else []
    if response is None or not final_calls:
        return
    request = builder.request_after(response)
    answers = {part.fields.get("tool_call_id"): part.fields.get("content") for part in request.parts}
    step: list[str] = builder.scratch.get(STEP, [])
    calls = [part.fields for part in response.parts if part.fields["part_kind"] == "tool-call" and part.done]
    silent = [call for call in calls if call["tool_call_id"] not in answers and call["tool_call_id"] not in step]
    taken = None
    if PROCESSED not in answers.values():
        # The first call of the output tool may have been refused; then another one is the answer.
        taken = next((call for call in silent if call["tool_name"] == final_calls[0].fields["tool_name"]), None)
        if taken is None:
            return
        builder.scratch[STEP] = [taken["tool_call_id"], *step]
    for call in silent:
        content = PROCESSED if call is taken else NOT_EXECUTED
        fields = {key: call[key] for key in ("tool_name", "tool_call_id")}
        implied = {**fields, "part_kind": "tool-return", "status": "success", "content": content, IMPLIED: True}
        request.parts.append(Part(implied, done=True))
    in_order(builder, response, request)
