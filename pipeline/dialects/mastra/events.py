"""Mastra's chunks (dialect `mastra`), as `fullStream` yields them: the kin of the AI SDK's UI message stream.

| event | what it does |
|---|---|
| start, step-start | as start, start-step of `vercel-ai` |
| text-…, reasoning-…, data-… | as those of `vercel-ai` |
| tool-call-input-streaming-start, tool-call-delta | a call whose input is coming |
| tool-call, tool-result, tool-error, tool-output-denied | the call, whole; its result |
| tool-call-approval, tool-call-suspended | the call waits, and so does the run, which is complete |
| tool-output | of a tool: SystemMessage data-app-tool-output; of an agent that is a tool: nothing, its result has it |
| source, file | as source-url, source-document, file |
| step-finish | the response is complete; its model and tokens |
| step-finish: `retry` | the response is taken back; its tokens count |
| error, tripwire | as error |
| finish | the end; without a reason the model's stream broke off; its tokens are the sums of all steps |
| abort | the run was broken off; a finish behind it, whose reason is `tripwire`, changes nothing |
| object, object-result, raw, tool-call-input-streaming-end | nothing: others have it |
| any other | SystemMessage data-app-TYPE |
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.dialects.kin import kin
from pipeline.dialects.vercel_ai import DIALECT as OF
from topics import json_text
from topics.json_text import Fields, object_of, objects

SPENT: Final = "mastra.spent"
CALLS: Final = {  # -> the type of the AI SDK
    "tool-call-input-streaming-start": "tool-input-start",
    "tool-call-delta": "tool-input-delta",
    "tool-call": "tool-input-available",
    "tool-result": "tool-output-available",
    "tool-error": "tool-output-error",
    "tool-output-denied": "tool-output-denied",
}
NAMES: Final = {"args": "input", "argsTextDelta": "inputTextDelta", "result": "output", "mimeType": "mediaType"}
TOLD: Final = ("aborted", "tripwire")  # reasons of a finish behind an abort or a tripwire, which are the end
SILENT: Final = ("object", "object-result", "raw", "tool-call-input-streaming-end")


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield the AI SDK's events of an event."""
    kind, told = event["type"], event.get("payload", {})
    match kind:
        case "start":
            yield {"type": kind, "messageId": told.get("messageId")}
        case "step-start":
            yield {"type": "start-step"}
        case _ if kind in CALLS:
            failed = told.get("error") if kind == "tool-error" else told.get("result") if told.get("isError") else None
            named = {NAMES.get(key, key): value for key, value in told.items()}
            sort = CALLS[kind] if failed is None else "tool-output-error"
            yield {**named, "type": sort, **({} if failed is None else {"errorText": _why(failed)})}
        case "text-delta" | "reasoning-delta":
            yield {"type": kind, "delta": told["text"], **_beside(told)}
        case _ if kind.startswith(("text-", "reasoning-")):
            yield {"type": kind, **_beside(told)}
        case "tool-call-approval" | "tool-call-suspended":
            approval = {"type": "tool-approval-request", "approvalId": told["toolCallId"]}
            yield {**told, **(approval if kind == "tool-call-approval" else {"type": kind})}
            yield {"type": "finish-step"}
            yield {"type": "finish", "finishReason": "tool-calls"}
        case "source":
            yield {**told, "type": f"source-{told['sourceType']}", "sourceId": told["id"]}
        case "file" | "reasoning-file":
            yield {"type": kind, "mediaType": told["mimeType"], "url": f"data:{told['mimeType']};base64,{told['data']}"}
        case "step-finish":
            again = told["stepResult"].get("reason") == "retry"
            yield {"type": SPENT, "usage": told["output"]["usage"], "about": told.get("metadata"), "beside": again}
            yield {"type": "reset-step" if again else "finish-step"}
        case "error":
            yield {"type": "error", "errorText": _why(told["error"])}
        case "tripwire":
            yield from [] if told.get("retry") else [{"type": "error", "errorText": told["reason"]}]
        case "finish":
            reason = told["stepResult"].get("reason", "interrupted")
            yield from [] if reason in TOLD else [{"type": kind, "finishReason": reason}]
        case "tool-output" if "payload" in object_of(told.get("output")):
            pass
        case _ if kind not in SILENT:
            yield {"type": kind, **told} if "payload" in event else event


def _beside(told: Fields) -> Fields:
    return {key: told[key] for key in ("id", "providerMetadata") if key in told}


def _why(error: Any) -> str:
    """Return the text of an error, which is serialized with what the program lets out of it."""
    while isinstance(error, dict):
        error = error.get("message") or error.get("cause") or error.get("name") or json_text.dumps(error)
    return error if isinstance(error, str) else json_text.dumps(error)


def spent(builder: Builder, event: Fields) -> None:
    """Set the tokens and the model of a step; those of a step that an earlier run began count beside the answer."""
    about = object_of(event["about"])
    model = about.get("modelMetadata") or {}
    used = {key: value for key, value in event["usage"].items() if key != "raw"}
    names = {"model_name": model.get("modelId"), "provider_name": model.get("modelProvider")}
    if not used:
        return
    if builder.response is None or event["beside"]:
        builder.beside("step", used, model=names["model_name"], provider=names["provider_name"])
        return
    builder.usage(used, builder.response)
    fields = {**names, "provider_response_id": about.get("id")}
    builder.response.fields |= {key: value for key, value in fields.items() if isinstance(value, str)}


def body(request: Any) -> Any:
    """Return what the agent was asked, a text or messages, as the body of a chat route."""
    asked = request.get("messages") if isinstance(request, dict) else request
    messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else objects(asked)
    return {
        "messages": [
            {**message, "parts": message["content"]} if isinstance(message.get("content"), list) else message
            for message in messages
        ]
    }


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire; a tool's data has a type alone."""
    match event:
        case {"type": str(), "runId": str(), "from": str(), "payload": {}}:
            return True
        case {"type": "object" | "object-result", "from": str(), "object": _} | {"type": "tripwire", "payload": {}}:
            return True
    return False


DIALECT: Final = kin("mastra", OF, translate, body, recognises, provider=None, more={SPENT: spent}, resume=None)
