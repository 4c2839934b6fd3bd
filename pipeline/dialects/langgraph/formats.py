"""Thread document -> LangChain messages, in the plain form of a graph's state.

`langchain_core.messages.convert_to_messages` and `graph.update_state` take them. Content is in the form of the
provider's package, if the thread came from there; otherwise in LangChain's standard blocks. Sources and errors
can't be expressed and are left out.

Back: histories of LangChain messages (a graph's `state["messages"]`), in any of their serialisations -> exchanges.
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects.exports import Names, paired, spoken
from pipeline.dialects.history import MessagePlace, exchanges
from pipeline.dialects.langgraph.parts import META, SIGNATURES
from pipeline.dialects.langgraph.shapes import message_of
from pipeline.dialects.langgraph.stream import Entry, Stream, made_by_program
from pipeline.dialects.langgraph.turn import write
from pipeline.dialects.openai_chat.keys import REFUSAL
from pipeline.dialects.signatures import signature_of
from pipeline.dialects.wire_values import text_or_json
from topics.json_text import Fields, filled, present
from turnmill.errors import InvalidRecord, Reason

NAMES: Final = Names("type", "ai", "tool", "tool_call_id", ("tool_calls", "invalid_tool_calls"), ("content",))
LARGEST: Final = 2**64  # the integers that a checkpoint can store
REASONS: Final = {"tool_call": "tool_calls"}


def messages(document: Fields) -> list[Fields]:
    """Return [{"type": "human" / "ai" / "tool", "content", "id", ...}], oldest first."""
    messages: list[Fields] = []
    for turn in document.get("turns", ()):
        made = list(_turn(turn))
        for number, message in enumerate(made):
            message["id"] = message.get("id") or f"{turn.get('meta:turn_id', 'turn')}-{number}"
        messages += made
    return paired(messages, NAMES)


def _turn(turn: Fields) -> Iterator[Fields]:
    for kind, message in spoken(turn):
        if kind == "asked":
            yield from _request(message.get("parts", ()))
        else:
            yield _response(message)


def _request(parts: Any) -> Iterator[Fields]:
    for part in parts:
        kind, meta = part.get("part_kind"), _kept(part)
        if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
            yield _tool(part)
        elif kind in ("user-prompt", "retry-prompt", "text"):
            yield {"type": "human", "content": _content(part.get("content", "")), **meta}


def _tool(part: Fields) -> Fields:
    failed = part.get("part_kind") == "retry-prompt" or part.get("status", "success") != "success"
    content = part["content_ref"] if "content" not in part and "content_ref" in part else part.get("content")
    plain = isinstance(content, list) and all(isinstance(item, str | dict) for item in content)
    message: Fields = {
        "type": "tool",
        "content": content if plain else text_or_json(content),
        "tool_call_id": str(part.get("tool_call_id", "")),
        "name": str(part.get("tool_name", "")),
        "status": "error" if failed else "success",
    }
    if "metadata" in part:
        message["artifact"] = part["metadata"]
    return {**message, **_kept(part)}


def _kept(fields: Fields) -> Fields:
    """Return id and name of a message; unknown fields stay in the thread."""
    return {key: value for key, value in fields.get(META, {}).items() if key != "fields"}


def _response(response: Fields) -> Fields:
    parts, meta = response.get("parts", ()), _kept(response)
    content: list[Fields] = []
    calls: list[Fields] = []
    broken: list[Fields] = []
    extra: Fields = {}
    for index, part in enumerate(parts):
        kind = part.get("part_kind", "")
        if kind == "tool-call":
            (broken if _is_broken(part) else calls).append(_call(part))
            if (signature := signature_of(part)) is not None:
                extra.setdefault(SIGNATURES, {})[str(part.get("tool_call_id", ""))] = signature
        elif kind == "thinking" and part.get(META, {}).get("as") == "reasoning_content":
            extra["reasoning_content"] = part.get("content", "")
        else:
            content += _block(parts, index, part)
    plain = all(block == {"type": "text", "text": block.get("text")} for block in content) and len(content) < 2
    metadata = {"model_name": response.get("model_name"), "model_provider": response.get("provider_name")}
    metadata["id"] = response.get("provider_response_id")
    reason = response.get("finish_reason")
    metadata["finish_reason"] = REASONS.get(str(reason), reason)
    return {
        "type": "ai",
        "content": "".join(block["text"] for block in content) if plain else content,
        "additional_kwargs": extra,
        "response_metadata": present(metadata),
        "tool_calls": calls,
        "invalid_tool_calls": broken,
        **_usage(response.get("usage")),
        **meta,
    }


def _usage(usage: Any) -> Fields:
    """Return tokens as LangChain counts them: input with caches, output with thoughts."""
    if not isinstance(usage, dict) or not isinstance(usage.get("input_tokens"), int):
        return {}
    counts = {"input_tokens": usage["input_tokens"], "output_tokens": usage.get("output_tokens") or 0}
    fields: Fields = {**counts, "total_tokens": usage.get("total_tokens") or sum(counts.values())}
    read = {"cache_read": usage.get("cache_read_tokens"), "cache_creation": usage.get("cache_write_tokens")}
    thought = {"reasoning": usage.get("thinking_tokens")}
    for name, details in (("input_token_details", read), ("output_token_details", thought)):
        fields |= filled({name: usage.get(name) or present(details)})
    return {"usage_metadata": fields}


def _is_broken(part: Fields) -> bool:
    args = part.get("args")
    return not isinstance(args, dict | None) or (isinstance(args, dict) and set(args) == {"INVALID_JSON"})


def _call(part: Fields) -> Fields:
    args = part.get("args")
    names = {"name": str(part.get("tool_name", "")), "id": str(part.get("tool_call_id", ""))}
    if not _is_broken(part):
        return {**names, "args": _storable(args or {}), "type": "tool_call"}
    text = args["INVALID_JSON"] if isinstance(args, dict) else args
    return {**names, "args": text_or_json(text), "error": None, "type": "invalid_tool_call"}


def _storable(value: Any) -> Any:
    """Return integers of more than 64 bits as doubles, of more than 1024 as text: a graph's checkpoint refuses them."""
    match value:
        case dict():
            return {key: _storable(item) for key, item in value.items()}
        case list():
            return [_storable(item) for item in value]
        case int() if not -LARGEST // 2 <= value < LARGEST:
            return float(value) if value.bit_length() < 1024 else str(value)  # a double's exponent
    return value


def _block(parts: Any, index: int, part: Fields) -> list[Fields]:
    """Return a part of a response, other than a call of a tool, as content blocks."""
    kind, meta = part.get("part_kind", ""), part.get(META, {})
    if kind == "text":
        if part.get(REFUSAL):
            return [{"type": "refusal", "refusal": part.get("content") or ""}]
        block: Fields = {"type": "text", "text": part.get("content") or ""}
        return [{**block, "annotations": meta["annotations"]} if "annotations" in meta else block]
    if kind == "thinking":
        return _thought(parts, index, part)
    if kind == "builtin-tool-call":
        call = {"id": part.get("tool_call_id"), "name": part.get("tool_name"), "args": part.get("args") or {}}
        return [{"type": "server_tool_call", **call}]
    if kind == "builtin-tool-return":
        status = "error" if part.get("outcome", "success") != "success" else "success"
        result = {"tool_call_id": part.get("tool_call_id"), "status": status, "output": part.get("content")}
        return [{"type": "server_tool_result", **result}]
    if kind == "file":
        return _file(part.get("content"))
    return [part["block"]] if kind == "custom:langchain" and isinstance(part.get("block"), dict) else []


def _thought(parts: Any, index: int, part: Fields) -> list[Fields]:
    """Return a thought as its provider accepts it: with its signature, or the summary with its encrypted content."""
    meta, signature = part.get(META, {}), part.get("signature")
    identity = {"id": part["thinking_id"]} if isinstance(part.get("thinking_id"), str) else {}
    if "group" in meta:
        group = [other.get("content", "") for other in parts[index : index + meta["group"]]]
        sealed = {"encrypted_content": signature} if signature is not None else {}
        summary = [{"type": "summary_text", "text": text, "index": n} for n, text in enumerate(group)]
        return [{"type": "reasoning", **identity, "summary": summary, **sealed}]
    before = (part.get(META, {}) for part in reversed(parts[:index]))
    if any(meta_of.get("group", 0) > back for back, meta_of in enumerate(before, 1)):
        return []  # it is in the summary of the first part
    if meta.get("as") == "thinking" or (signature is not None and meta.get("as") != "reasoning"):
        sealed = {"signature": signature} if signature is not None else {}
        return [{"type": "thinking", "thinking": part.get("content") or "", **sealed}]
    if meta.get("sealed") == "encrypted_content":
        return [{"type": "reasoning", **identity, "summary": [], "encrypted_content": signature}]
    extras = {"extras": {"signature": signature}} if signature is not None else {}
    return [{"type": "reasoning", **identity, "reasoning": part.get("content") or "", **extras}]


def _file(held: Any) -> list[Fields]:
    if not isinstance(held, dict):
        return []
    media_type = str(held.get("media_type") or held.get("content_type") or "application/octet-stream")
    kind = media_type.partition("/")[0]
    block: Fields = {"type": kind if kind in ("image", "audio", "video") else "file", "mime_type": media_type}
    if isinstance(held.get("data"), str):
        return [{**block, "base64": held["data"]}]
    return [{**block, "url": held["url"]}] if isinstance(held.get("url"), str) else []


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return text_or_json(content)
    blocks: list[Fields] = []
    for item in content:
        if isinstance(item, str):
            blocks.append({"type": "text", "text": item})
        elif isinstance(item, dict) and item.get("kind") == "text-content":
            blocks.append({"type": "text", "text": str(item.get("content", ""))})
        elif isinstance(item, dict) and item.get("kind") == "custom:langchain" and isinstance(item.get("block"), dict):
            blocks.append(item["block"])
        else:
            blocks += _file(item)
    return blocks


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer; system messages are not part of a thread."""
    read = [message for message in map(_read, messages) if message["type"] in ("human", "ai", "tool")]
    return exchanges(read, _place_in_exchange)


def _place_in_exchange(message: Fields) -> MessagePlace | None:
    """Return the place of a message; None for the words of a program."""
    if message["type"] != "human":
        return MessagePlace.ANSWER
    return None if made_by_program(message) else MessagePlace.PROMPT


def _read(raw: Fields) -> Fields:
    message = message_of(raw)
    if message is None:
        raise InvalidRecord(Reason.INVALID_EVENT, f"no message of LangChain: {raw!r:.80}")
    return message


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the state of a finished run."""
    stream = Stream(updated=True, valued=True)
    stream.state = [Entry(message, builder.at, builder.at, whole=True) for message in messages]
    write(builder, stream, "complete")
    return "complete" if builder.messages else None


READER: Final = Reader(split, fill)
