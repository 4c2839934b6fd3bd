"""Bedrock's ConverseStream, and its streams of Anthropic's events (dialect `bedrock`): Anthropic's kin.

| event | what it does |
|---|---|
| messageStart, contentBlockStart, contentBlockStop | as Anthropic's |
| contentBlockDelta | text, reasoningContent, toolUse, toolResult, citation |
| contentBlockDelta of another kind | SystemMessage data-app-content_block_delta |
| messageStop | the call ended well; its stopReason |
| metadata | its usage, also behind messageStop; `inputTokens` are without those of caches |
| throttlingException, modelStreamErrorException, any …Exception | the call failed, unless it is tried again |
| chunk | an event of Anthropic's (InvokeModelWithResponseStream), unpacked |
| output | a whole answer (Converse) |
| turnmill.request, turnmill.error | as Anthropic's |
| any other | SystemMessage data-app-TYPE |
"""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation
from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.anthropic.events import count
from pipeline.dialects.anthropic.keys import note
from pipeline.dialects.anthropic.message import merged
from pipeline.dialects.kin import delta, kin, model_asked
from pipeline.dialects.model_calls import calls_of
from pipeline.dialects.wire_values import texts_of
from topics.json_text import Fields, objects
from turnmill.wire.aws_frames import base64_of
from turnmill.wire.envelope import loads

KINDS: Final = frozenset({"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"})
FAILED: Final = "Exception"  # the suffix of the types of failures
ERROR: Final = "error"  # a frame of the kind `error`
COUNTS: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheWriteInputTokens": "cache_creation_input_tokens",
}
LIFETIMES: Final = {"5m": "ephemeral_5m_input_tokens", "1h": "ephemeral_1h_input_tokens"}
USAGE: Final = "bedrock.usage"  # of a call that is over
READ: Final = ("output", "stopReason", "usage", "serviceTier", "ResponseMetadata", "$metadata")  # the last two: HTTP's


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield Anthropic's events of an event, whose only key is its type."""
    if "output" in event:
        content = [block(each) for each in objects(event["output"]["message"]["content"])]
        answer = {"content": content, "stop_reason": event.get("stopReason"), "usage": usage(event)}
        yield {"type": "message", **model_asked(state), **answer, **_rest(event, *READ)}
        return
    if event.get("type") == "message":
        yield _named(state, event)
        return
    kind = next(iter(event), "")
    told = event.get(kind)
    if kind.endswith(FAILED) or kind == ERROR:
        about = told if isinstance(told, dict) else {"message": told}
        yield {"type": "error", "error": {"type": kind, **about}}
        return
    if not isinstance(told, dict):
        raise Violation(f"an event of Bedrock has a single key, its type, with an object: {kind!r:.80}")
    index, results = told.get("contentBlockIndex", 0), state.setdefault("results", {})
    match kind:
        case "chunk":
            inner = loads(b64decode(base64_of(told["bytes"])))
            if "message" in inner:
                inner = {**inner, "message": _named(state, inner["message"])}
            yield from [inner] if "type" in inner else translate(state, inner)  # Nova's are those of Converse
        case "messageStart":
            results.clear()
            yield {"type": "message_start", "message": model_asked(state)}
        case "contentBlockStart" if "toolResult" in told["start"]:  # its content comes in deltas
            results[index] = {**told["start"]["toolResult"], "content": []}
        case "contentBlockStart":
            yield {"type": "content_block_start", "index": index, "content_block": block(told["start"])}
        case "contentBlockDelta" if index in results and "toolResult" in told["delta"]:
            results[index]["content"] += told["delta"]["toolResult"]
        case "contentBlockDelta":
            yield extended(index, told["delta"])
        case "contentBlockStop" if index in results:
            whole = block({"toolResult": results[index]})
            del results[index]
            yield {"type": "content_block_start", "index": index, "content_block": whole}
        case "contentBlockStop":
            pass
        case "messageStop":
            reason = {"stop_reason": told.get("stopReason")}
            yield {"type": "message_delta", "delta": reason | _rest(told, "stopReason")}
            yield {"type": "message_stop"}
        case "metadata":
            yield {"type": USAGE, "usage": usage(told), "about": _rest(told, *READ)}
        case _:
            yield {**_rest(told), "type": kind}


def _named(state: Fields, message: Fields) -> Fields:
    """Return a message of Anthropic's with the id that the request has of its model: it names the region, too."""
    return {**message, **{key: name for key, name in model_asked(state).items() if name}}


def count_behind(builder: Builder, event: Fields) -> None:
    """Count the tokens that `metadata` names after a call has ended, and keep the other fields of that event."""
    answer = calls_of(builder).answer
    if answer is not None:
        answer.usage = merged(answer.usage, event["usage"])
        count(builder, answer)
        note(answer.response.fields, event["about"])


def usage(holder: Fields) -> Fields:
    """Return a usage object in Anthropic's names, with the tier beside it; `totalTokens` is the sum of all counts."""
    told, tier = holder.get("usage") or {}, holder.get("serviceTier") or {}
    counts = {name: told[key] for key, name in COUNTS.items() if key in told}
    written = {
        LIFETIMES[detail["ttl"]]: detail.get("inputTokens")
        for detail in objects(told.get("cacheDetails"))
        if detail.get("ttl") in LIFETIMES
    }
    served = {"service_tier": tier["type"]} if "type" in tier else {}
    return {**counts, **({"cache_creation": written} if written else {}), **served}


def extended(index: Any, told: Fields) -> Fields:
    """Return Anthropic's event of a delta; what neither client knows as it is."""
    match told:
        case {"text": str(text)}:
            return delta(index, "text_delta", text)
        case {"toolUse": {"input": str(text)}}:
            return delta(index, "input_json_delta", text)
        case {"reasoningContent": {"text": str(text)}}:
            return delta(index, "thinking_delta", text)
        case {"reasoningContent": {"signature": str(signature)}}:
            return delta(index, "signature_delta", signature)
        case {"reasoningContent": {"redactedContent": _}}:  # a block without a start
            return {"type": "content_block_start", "index": index, "content_block": block(told)}
        case {"citation": citation}:
            return delta(index, "citations_delta", citation)
    return {"type": "content_block_delta", "index": index, "delta": {"type": "delta", **told}}


def block(told: Any) -> Fields:
    """Return a content block as Anthropic's, of an answer or a request."""
    match told:
        case {"text": str(text)} | {"guardContent": {"text": {"text": str(text)}}}:
            return {"type": "text", "text": text}
        case {"citationsContent": {"content": list(pieces)} as cited}:
            return {"type": "text", "text": texts_of(pieces), "citations": cited.get("citations")}
        case {"toolUse": dict(call)}:
            rest = {key: value for key, value in call.items() if key not in ("toolUseId", "type")}
            kind = call.get("type", "tool_use")
            return {"type": kind, "id": call.get("toolUseId"), **rest}
        case {"toolResult": dict(result)}:
            failed = {"is_error": True} if result.get("status") == "error" else {}
            kind = "tool_result" if "type" not in result else result["type"].removesuffix("_result") + "_tool_result"
            content = _value(result.get("content"))
            return {"type": kind, "tool_use_id": result.get("toolUseId"), **failed, "content": content}
        case {"reasoningContent": {"reasoningText": dict(thought)}}:
            return {"type": "thinking", "thinking": thought.get("text"), "signature": thought.get("signature")}
        case {"reasoningContent": {"redactedContent": sealed}}:
            return {"type": "redacted_thinking", "data": base64_of(sealed)}
        case {"image": dict()} | {"document": dict()} | {"video": dict()}:
            return _file(told)
    return {"type": "block", **told} if isinstance(told, dict) else {"type": "block"}


def _file(told: Fields) -> Fields:
    ((kind, file),) = [(kind, told[kind]) for kind in ("image", "document", "video") if kind in told]
    media = f"{'application' if kind == 'document' else kind}/{file.get('format')}"
    match file.get("source"):
        case {"bytes": data}:
            source = {"type": "base64", "data": base64_of(data), "media_type": media}
        case {"s3Location": {"uri": str(uri)}}:
            source = {"type": "url", "url": uri}
        case {"text": str(text)}:
            source = {"type": "text", "data": text}
        case other:
            source = {"type": "custom", "source": other}
    return {"type": "image" if kind == "image" else "document", "source": source}


def _value(content: Any) -> Any:
    """Return the content of a tool's result: the single text or value that it usually is."""
    match content:
        case [{"text": str(text)}]:
            return text
        case [{"json": value}]:
            return value
    return content


def _rest(told: Fields, *known: str) -> Fields:
    return {key: value for key, value in told.items() if key not in (*known, "p")}  # `p` is padding


def body(request: Any) -> Any:
    """Return the body of a request to Converse with its messages as Anthropic's; InvokeModel's is Anthropic's."""
    if not isinstance(request, dict):
        return request
    model = {"model": request["modelId"]} if "modelId" in request else {}
    messages = [
        {**message, "content": [block(each) for each in message["content"] if "cachePoint" not in each]}
        if isinstance(message.get("content"), list) and not any("type" in each for each in objects(message["content"]))
        else message
        for message in objects(request.get("messages"))
    ]
    system = [block(each) if "text" in each and "type" not in each else each for each in objects(request.get("system"))]
    said = {"messages": messages, "system": system}
    return {**model, **request, **{name: value for name, value in said.items() if value}}


HANDLERS: Final[dict[str, Handler]] = {USAGE: count_behind}


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire: each has a single key, its type."""
    kind = next(iter(event), "") if isinstance(event, dict) and len(event) == 1 else ""
    match event:
        case {"metadata": {"usage": {"inputTokens": _}}} | {"output": {"message": {"content": list()}}}:
            return True
        case {"chunk": {"bytes": _}}:
            return bool(kind)
    return (kind in KINDS or kind.endswith(FAILED)) and isinstance(event[kind], dict)


DIALECT: Final = kin("bedrock", OF, translate, body, recognises, more=HANDLERS)
