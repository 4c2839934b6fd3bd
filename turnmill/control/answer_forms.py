"""A person's answers in the form that each wire's SDK expects when a run is resumed. Pure: plain JSON values.

| wire | what `resumption` returns |
|---|---|
| a2a | a message of the user, for the task |
| ag-ui | `RunAgentInput.resume`: a list of {interruptId, status, payload} |
| agents-sdk, openai-agents, openai-agents-js | call id -> {approve, rejection_message}, for `state.approve`, `reject` |
| anthropic | a user's message with `tool_result` blocks |
| bedrock | a user's message with `toolResult` blocks |
| claude-code | call id -> the permission result of `can_use_tool` |
| gemini, google-adk | a user's Content with `functionResponse` parts |
| gemini-interactions | `function_result` items of `input` |
| langgraph | the argument of `Command(resume=…)` |
| mastra | call id -> {approved} for `approveToolCall` or `declineToolCall`, or {resumeData} for `resumeStream` |
| mistral | `function.result` entries of `inputs` |
| cohere, ollama, openai-chat | messages of the role `tool` |
| openai-realtime, openai-responses | items, of a `conversation.item.create` each, or of `input` |
| pi-agent, pi-proxy | messages of the role `toolResult` |
| pydantic-ai | `approvals` and `calls` of `DeferredToolResults` |
| strands | `interruptResponse` blocks, the prompt |
| vercel-ai | a ModelMessage of the role `tool` |

Only `true` and {"approved": true} approve a call; every other value denies it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from turnmill.control.claims import Answer
from turnmill.errors import CallerError

DENIED: Final = "denied"  # the reason that is sent if the person gave none


def resumption(answers: Sequence[Answer]) -> Any:
    """Return the answers to a run's questions in the form that its SDK expects.

    Raises CallerError for no answers, for answers of several wires, and for a wire whose runs can't be resumed.
    """
    wires = {answer.dialect for answer in answers}
    if len(wires) != 1 or (form := FORMS.get(str(*wires))) is None:
        raise CallerError(f"answers of one wire are expected, of {', '.join(FORMS)}: got {sorted(map(str, wires))}")
    return form(answers)


def approves(value: Any) -> bool:
    """Return True if an answer's value gives an approval."""
    return value is True or (isinstance(value, dict) and value.get("approved") is True)


def _approved(answer: Answer) -> bool:
    return approves(answer.value)


def _reason(answer: Answer) -> str | None:
    reason = answer.value.get("reason") if isinstance(answer.value, dict) else None
    return reason if isinstance(reason, str) else None


def _edited(answer: Answer) -> Any:
    """Return the arguments as the person changed them; None if they are unchanged."""
    return answer.value.get("args") if isinstance(answer.value, dict) else None


def _is_approval(answer: Answer) -> bool:
    return answer.asked.get("kind") == "approval"


def _call_id(answer: Answer) -> str:
    return str(answer.asked.get("tool_call_id") or answer.asked.get("id") or "")


def _own_id(answer: Answer) -> str:
    return str(answer.asked.get("id") or answer.asked.get("tool_call_id") or "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _a2a(answers: Sequence[Answer]) -> dict[str, Any]:
    return {"role": "ROLE_USER", "parts": [{"text": _text(answer.value)} for answer in answers]}


def _ag_ui(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    return [
        {"interruptId": _own_id(answer), "status": "cancelled"}
        if answer.value is None
        else {"interruptId": _own_id(answer), "status": "resolved", "payload": answer.value}
        for answer in answers
    ]


def _agents(answers: Sequence[Answer]) -> dict[str, dict[str, Any]]:
    return {
        _call_id(answer): {"approve": True}
        if _approved(answer)
        else {"approve": False, "rejection_message": _reason(answer) or DENIED}
        for answer in answers
    }


def _anthropic(answers: Sequence[Answer]) -> dict[str, Any]:
    blocks = [
        {"type": "tool_result", "tool_use_id": _call_id(answer), "content": _text(answer.value)} for answer in answers
    ]
    return {"role": "user", "content": blocks}


def _bedrock(answers: Sequence[Answer]) -> dict[str, Any]:
    results = [{"toolUseId": _call_id(answer), "content": [{"text": _text(answer.value)}]} for answer in answers]
    return {"role": "user", "content": [{"toolResult": result} for result in results]}


def _claude(answers: Sequence[Answer]) -> dict[str, dict[str, Any]]:
    return {
        _call_id(answer): {"behavior": "allow", "updatedInput": _edited(answer) or answer.asked.get("args") or {}}
        if _approved(answer)
        else {"behavior": "deny", "message": _reason(answer) or DENIED}
        for answer in answers
    }


def _google(answers: Sequence[Answer]) -> dict[str, Any]:
    parts = []
    for answer in answers:
        name, response = answer.asked.get("tool_name"), answer.value
        if _is_approval(answer):
            name, response = "adk_request_confirmation", {"confirmed": _approved(answer)}
        elif not isinstance(response, dict):
            response = {"result": response}
        parts.append({"functionResponse": {"id": _call_id(answer), "name": name, "response": response}})
    return {"role": "user", "parts": parts}


def _langgraph(answers: Sequence[Answer]) -> Any:
    """Return the value or the decisions for a single interrupt; for several interrupts, a dict by interrupt id."""
    by_interrupt: dict[str, list[Answer]] = {}
    for answer in answers:
        by_interrupt.setdefault(str(answer.asked.get("id") or "").partition("#")[0], []).append(answer)
    values = {
        name: {"decisions": [_decision(answer) for answer in some]} if _is_approval(some[0]) else some[0].value
        for name, some in by_interrupt.items()
    }
    return values if len(values) > 1 else next(iter(values.values()))


def _decision(answer: Answer) -> dict[str, Any]:
    if not _approved(answer):
        return {"type": "reject", "message": _reason(answer) or DENIED}
    if (args := _edited(answer)) is None:
        return {"type": "approve"}
    return {"type": "edit", "edited_action": {"name": answer.asked.get("tool_name"), "args": args}}


def _chat(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": _call_id(answer), "content": _text(answer.value)} for answer in answers]


def _responses(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    return [
        {"type": "mcp_approval_response", "approval_request_id": _call_id(answer), "approve": _approved(answer)}
        | ({} if (why := _reason(answer)) is None else {"reason": why})
        if _is_approval(answer)
        else {"type": "function_call_output", "call_id": _call_id(answer), "output": _text(answer.value)}
        for answer in answers
    ]


def _results(kind: str, key: str) -> Callable[[Sequence[Answer]], list[dict[str, Any]]]:
    """Return the form of results that are entries of this kind, with their call's id under `key`."""
    return lambda answers: [{"type": kind, key: _call_id(answer), "result": _text(answer.value)} for answer in answers]


def _ollama(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Return messages with the tools' names: Ollama's calls have no ids."""
    return [
        {"role": "tool", "tool_name": answer.asked.get("tool_name"), "content": _text(answer.value)}
        for answer in answers
    ]


def _pi(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    return [
        {
            "role": "toolResult",
            "toolCallId": _call_id(answer),
            "toolName": answer.asked.get("tool_name"),
            "content": [{"type": "text", "text": _text(answer.value)}],
            "isError": False,
        }
        for answer in answers
    ]


def _pydantic(answers: Sequence[Answer]) -> dict[str, dict[str, Any]]:
    approvals, calls = {}, {}
    for answer in answers:
        if not (_is_approval(answer) or isinstance(answer.value, bool)):
            calls[_call_id(answer)] = answer.value
        elif not _approved(answer):
            approvals[_call_id(answer)] = {"kind": "tool-denied", "message": _reason(answer) or DENIED}
        else:
            edited = _edited(answer)
            approved = {"kind": "tool-approved"} | ({} if edited is None else {"override_args": edited})
            approvals[_call_id(answer)] = approved
    return {"approvals": approvals, "calls": calls}


def _vercel_part(answer: Answer) -> dict[str, Any]:
    if _is_approval(answer):
        part = {"type": "tool-approval-response", "approvalId": _own_id(answer), "approved": _approved(answer)}
        return part | ({} if (why := _reason(answer)) is None else {"reason": why})
    output = {"type": "text" if isinstance(answer.value, str) else "json", "value": answer.value}
    name = answer.asked.get("tool_name")
    return {"type": "tool-result", "toolCallId": _call_id(answer), "toolName": name, "output": output}


FORMS: Final[Mapping[str, Callable[[Sequence[Answer]], Any]]] = {
    "a2a": _a2a,
    "ag-ui": _ag_ui,
    "agents-sdk": _agents,
    "anthropic": _anthropic,
    "bedrock": _bedrock,
    "claude-code": _claude,
    "cohere": _chat,
    "gemini": _google,
    "gemini-interactions": _results("function_result", "call_id"),
    "google-adk": _google,
    "langgraph": _langgraph,
    "mastra": lambda answers: {
        _call_id(answer): {"approved": _approved(answer)} if _is_approval(answer) else {"resumeData": answer.value}
        for answer in answers
    },
    "mistral": _results("function.result", "tool_call_id"),
    "ollama": _ollama,
    "openai-agents": _agents,
    "openai-agents-js": _agents,
    "openai-chat": _chat,
    "openai-realtime": _responses,
    "openai-responses": _responses,
    "pi-agent": _pi,
    "pi-proxy": _pi,
    "pydantic-ai": _pydantic,
    "strands": lambda answers: [
        {"interruptResponse": {"interruptId": _own_id(answer), "response": answer.value}} for answer in answers
    ],
    "vercel-ai": lambda answers: {"role": "tool", "content": [_vercel_part(answer) for answer in answers]},
}
