"""Conversion of content of LangChain's AI messages, as each provider's package writes it, to ThreadProtocol parts.

Fields that ThreadProtocol lacks are kept under META, by LangChain's names. Source: langchain-core, LangChain.js
(messages/block_translators of both).
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.openai_chat.keys import REFUSAL
from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.wire_values import text_or_empty
from pipeline.turns.arguments import arguments
from pipeline.turns.media_kinds import url_kind
from topics.json_text import Fields, object_of, objects, present

CALLS: Final = frozenset({"tool_use", "function_call", "tool_call", "custom_tool_call", "invalid_tool_call"})
STANDING: Final = CALLS | {"tool_call_chunk"}  # blocks that contain the whole call
PIECES: Final = frozenset({"input_json_delta", "tool_call_chunk", "server_tool_call_chunk"})
TEXTS: Final = ("text", "output_text", "text-plain", "refusal")
FIRST: Final = frozenset({"code_interpreter_call", "mcp_call", "image_generation_call"})  # of `tool_outputs`
INLINE: Final = re.compile(r"data:([^;,]+);base64,")
MEDIA: Final = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}
META: Final = "meta:langchain"
SIGNATURES: Final = "__gemini_function_call_thought_signatures__"  # signatures by the ids of calls
SERVER_CALLS: Final = frozenset({"server_tool_use", "server_tool_call", "mcp_tool_use"})
RESULTS: Final = frozenset({"server_tool_result", "server_tool_call_result"})
ANSWERED: Final = ("status", "results", "outputs", "output", "error")
NOT_ARGUMENTS: Final = frozenset({"id", "type", "index", *ANSWERED})
SUCCESS: Final = (None, 1, "OUTCOME_OK")  # of Google's code execution; None in old messages


def response_parts(message: Fields) -> list[Fields]:
    """Return the parts of an AI message: its content in order, calls at the index of their block, or else at the end.

    Parts in `additional_kwargs`, beside the content, come where langchain-core's `content_blocks` puts them.
    """
    calls = _by_id(message)
    extra = object_of(message.get("additional_kwargs"))
    _sign(calls, extra.get(SIGNATURES))
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    thoughts = _thoughts_beside(extra, blocks)
    named = [block.get("id") for block in objects(blocks)]
    outputs = [block for block in objects(extra.get("tool_outputs")) if block not in blocks]
    outputs = [block for block in outputs if block.get("id") is None or block["id"] not in named]
    blocks, outputs = _in_order(blocks, outputs, object_of(message.get("response_metadata")).get("output"))
    blocks = [*(block for block in outputs if block.get("type") in FIRST), *blocks]
    for index, block in enumerate(blocks):
        if isinstance(block, str):
            thoughts += [{"part_kind": "text", "content": block}] if block else []
        elif isinstance(block, dict) and not _is_repeated(block, blocks[:index]):
            thoughts += _block(block, calls)
    refusal = extra.get("refusal")
    if isinstance(refusal, str) and not any(part.get(REFUSAL) for part in thoughts):
        thoughts += _block({"type": "refusal", "refusal": refusal}, calls) if refusal else []
    thoughts += [call for same in calls.values() for call in same]
    thoughts += [part for block in outputs if block.get("type") not in FIRST for part in _block(block, calls)]
    return _with_ids(thoughts)


def _in_order(blocks: list[Any], outputs: list[Fields], order: Any) -> tuple[list[Any], list[Fields]]:
    """Return the blocks with those tools' outputs whose item in the provider's output is known; and the other outputs.

    `order`: the items of the provider's output. An item is put before the text that follows it there.
    """
    before: dict[Any, int] = {}  # id -> the number of texts before it
    texts = 0
    for item in objects(order):
        if item.get("type") == "message":
            texts += len(objects(item.get("content")))
        elif isinstance(item.get("id"), str):
            before[item["id"]] = texts
    known = [block for block in outputs if block.get("id") in before]
    if not known:
        return blocks, outputs
    placed: list[Any] = []
    texts = 0
    for block in blocks:
        if isinstance(block, str) or (isinstance(block, dict) and block.get("type") in TEXTS):
            placed += [output for output in known if before[output["id"]] == texts]
            texts += 1
        placed.append(block)
    placed += [output for output in known if before[output["id"]] >= texts]
    return placed, [block for block in outputs if block not in known]


def _thoughts_beside(extra: Fields, blocks: list[Any]) -> list[Fields]:
    """Return thoughts that the content lacks: of OpenAI's older messages by summary, of others as one text."""
    if any(isinstance(block, dict) and block.get("type") in ("reasoning", "thinking") for block in blocks):
        return []
    if isinstance(extra.get("reasoning"), dict):
        return _thoughts({**extra["reasoning"], "type": "reasoning"})
    thought = extra.get("reasoning_content")
    if not isinstance(thought, str) or not thought:
        return []
    return [{"part_kind": "thinking", "content": thought, META: {"as": "reasoning_content"}}]


def _sign(calls: dict[str, list[Fields]], signatures: Any) -> None:
    """Add the signatures of thoughts before calls, as langchain-google-genai keeps them."""
    for call_id, signature in signatures.items() if isinstance(signatures, dict) else ():
        for call in calls.get(call_id, ()):
            if isinstance(signature, str):
                call[SIGNATURE] = signature


def _is_repeated(block: Fields, before: list[Any]) -> bool:
    """Return True for a picture that LangChain.js writes twice: in its own form, then in the provider's."""
    value = block.get("value")
    if block.get("type") != "non_standard" or not isinstance(value, dict) or not isinstance(value.get("result"), str):
        return False
    return any(value["result"] in (other.get("data"), other.get("base64")) for other in objects(before))


def _by_id(message: Fields) -> dict[str, list[Fields]]:
    """Return the calls of each id. Only `tool_calls` may have an id twice: other lists repeat the same call."""
    count = len(objects(message.get("tool_calls")))
    grouped: dict[str, list[Fields]] = {}
    for number, part in enumerate(_calls(message)):
        same = grouped.setdefault(str(part["tool_call_id"]), [])
        if number >= count:
            same.clear()
        same.append(part)
    return grouped


def _calls(message: Fields) -> Iterator[Fields]:
    """Yield calls, also those whose arguments are not JSON."""
    calls = [call for key in ("tool_calls", "invalid_tool_calls") for call in objects(message.get(key))]
    calls = calls or objects(message.get("tool_call_chunks"))
    for call in calls or [block for block in objects(message.get("content")) if str(block.get("type")) in STANDING]:
        name, call_id = call.get("name"), call.get("call_id", call.get("id"))
        if call.get("type") == "invalid_tool_call" and not name and not call_id:
            continue  # LangChain.js: the input of a provider's tool, which is also a block of the content
        args: Any = next((call[key] for key in ("args", "input", "arguments") if call.get(key) is not None), {})
        if isinstance(args, str):
            args = {"INVALID_JSON": args} if call.get("type") == "invalid_tool_call" else arguments(args)
        identity = {"tool_name": text_or_empty(name), "tool_call_id": text_or_empty(call_id)}
        yield {"part_kind": "tool-call", **identity, "args": args}


def _block(block: Fields, calls: dict[str, list[Fields]]) -> list[Fields]:
    kind = str(block.get("type"))
    if kind == "non_standard" and isinstance(block.get("value"), dict):
        return _block(block["value"], calls)
    if kind in CALLS:
        same = calls.get(str(block.get("call_id", block.get("id"))))
        return [same.pop(0)] if same else []
    if kind in PIECES:
        return []
    if kind in ("text", "output_text", "text-plain"):
        text = block.get("text")
        cited = block.get("annotations") or block.get("citations")
        part = {"part_kind": "text", "content": text if isinstance(text, str) else ""}
        return [{**part, META: {"annotations": cited}} if cited else part]
    if kind == "refusal" and isinstance(block.get("refusal"), str) and block["refusal"]:
        return [{"part_kind": "text", "content": block["refusal"], REFUSAL: True}]
    if kind in ("thinking", "reasoning"):
        return _thoughts(block)
    if kind == "image_generation_call":
        media_type = f"image/{block.get('output_format') or 'png'}"
        return [_file({"base64": block.get("result"), "mime_type": media_type, "type": "image", "id": block.get("id")})]
    if (parts := _builtin_tool(block, kind)) is not None:
        return parts
    if kind in MEDIA or kind in ("image_url", "input_image", "output_audio", "inlineData"):
        return [_file(block)]
    return [{"part_kind": "custom:langchain", "block": block}]


def _thoughts(block: Fields) -> list[Fields]:
    """Return each text of a summary as a thought; the signature or encrypted content goes with the first."""
    extras = object_of(block.get("extras"))
    summary = [entry.get("text", "") for entry in objects(block.get("summary"))]
    thought = next((block[key] for key in ("thinking", "reasoning") if block.get(key)), "")
    if isinstance(thought, list):  # Mistral
        thought = "".join(text for piece in objects(thought) if isinstance(text := piece.get("text"), str))
    texts = summary or [thought if isinstance(thought, str) else ""]
    kept = (block.get(key, extras.get(key)) for key in ("signature", "encrypted_content"))
    signature = next((value for value in kept if isinstance(value, str)), None)
    meta: Fields = {"as": block["type"], "group": len(texts) if summary else None}
    parts: list[Fields] = [{"part_kind": "thinking", "content": text} for text in texts]
    if signature is not None:
        parts[0]["signature"] = signature
        meta["sealed"] = "encrypted_content" if "encrypted_content" in {*block, *extras} else "signature"
    if isinstance(block.get("id"), str):
        parts[0]["thinking_id"] = block["id"]
    parts[0][META] = present(meta)
    return parts if any(texts) or signature is not None else []


def _file(block: Fields) -> Fields:
    """Return a file that the model made, by value or by address."""
    kind = str(block.get("type", "file"))
    within = (block.get(key) for key in ("source", "inlineData"))
    held = {**block, **next((held for held in within if isinstance(held, dict)), {})}
    media_type = next((held[key] for key in ("mime_type", "media_type", "mimeType") if held.get(key)), None)
    media_type = str(media_type or MEDIA.get(kind.partition("_")[0], MEDIA["file"]))
    data = held.get("base64", held.get("data"))
    address = held.get("url", held.get("image_url"))
    address = address.get("url") if isinstance(address, dict) else address
    if data is None and isinstance(address, str) and (inline := INLINE.match(address)):
        media_type, data = inline[1], address[inline.end() :]
    if isinstance(data, str):
        return {"part_kind": "file", "content": {"kind": "binary", "data": data, "media_type": media_type}}
    if isinstance(address, str):
        content = {"kind": url_kind(media_type), "url": address, "content_type": media_type, "media_type": media_type}
        return {"part_kind": "file", "content": content}
    return {"part_kind": "custom:langchain", "block": block}


def content(value: Any) -> Any:
    """Return a user's content: a single text stays a text, all else is a list of texts and files."""
    if isinstance(value, str):
        return value
    pieces = [_content_item(block) for block in value] if isinstance(value, list) else []
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else pieces


def _content_item(block: Any) -> Any:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return {"kind": "custom:langchain", "block": block}
    if block.get("type") in ("text", "input_text") and isinstance(block.get("text"), str):
        return block["text"]
    held = _file(block)
    return held["content"] if held["part_kind"] == "file" else {"kind": "custom:langchain", "block": block}


def _builtin_tool(block: Fields, kind: str) -> list[Fields] | None:
    """Return the parts of a provider's own tool; None for another block. OpenAI's is a call with its return."""
    if kind in SERVER_CALLS:
        return [_call(block, str(block.get("name", "")), _args(block))]
    if kind in RESULTS or kind.endswith("_tool_result"):
        return [_return(block, kind)]
    if kind in ("executable_code", "executableCode"):
        return [_call(block, "code_execution", _code(block, kind))]
    if kind in ("code_execution_result", "codeExecutionResult"):
        return [_code_result(block, kind)]
    return _hosted(block, kind.removesuffix("_call")) if kind.endswith("_call") else None


def _args(block: Fields) -> Any:
    given = block.get("input", block.get("args"))
    text = block.get("partial_json")
    if not given and isinstance(text, str):
        return arguments(text)
    return arguments(given) if isinstance(given, str) else given or {}


def _hosted(block: Fields, name: str) -> list[Fields]:
    if name == "web_search":
        args: Any = block.get("action") or {}
    elif name == "code_interpreter":
        args = {"code": block.get("code")}
    elif "arguments" in block:
        args = _args({"input": block["arguments"]})
    else:
        args = {key: value for key, value in block.items() if key not in NOT_ARGUMENTS and value is not None}
    held = {key: block[key] for key in ANSWERED if block.get(key) is not None}
    answer = {"part_kind": "builtin-tool-return", "tool_name": name, "tool_call_id": block.get("id"), "content": held}
    return [_call(block, name, args), {**answer, META: {"as": block["type"]}}]


def _call(block: Fields, name: str, args: Any) -> Fields:
    call = {"part_kind": "builtin-tool-call", "tool_name": name, "tool_call_id": block.get("id"), "args": args}
    return {**call, META: {"as": block["type"]}}


def _return(block: Fields, kind: str) -> Fields:
    call_id = next((block[key] for key in ("tool_use_id", "tool_call_id", "toolCallId") if key in block), None)
    name = "" if kind in RESULTS else kind.removesuffix("_tool_result")
    answer = {"part_kind": "builtin-tool-return", "tool_name": name, "tool_call_id": call_id}
    return {**answer, "content": block.get("content", block.get("output")), META: {"as": kind}}


def _code(block: Fields, kind: str) -> Fields:
    """Return the code that Google ran; LangChain.js writes it as an object."""
    held = block.get(kind)
    held = held if isinstance(held, dict) else {"code": held, "language": block.get("language")}
    return {key: held[key] for key in ("language", "code") if held.get(key) is not None}


def _code_result(block: Fields, kind: str) -> Fields:
    held = block.get(kind)
    held = held if isinstance(held, dict) else {"output": held, "outcome": block.get("outcome")}
    content = {key: held[key] for key in ("outcome", "output") if held.get(key) is not None}
    answer: Fields = {"part_kind": "builtin-tool-return", "tool_name": "code_execution", "content": content}
    status = "success" if held.get("outcome") in SUCCESS else "error"
    return {**answer, "tool_call_id": block.get("tool_call_id"), "status": status, META: {"as": kind}}


def _with_ids(parts: list[Fields]) -> list[Fields]:
    """Return the parts with an id for each call and return that lacks one, and returns with the names of their calls.

    Google's are paired by their order.
    """
    newest, names = "", {}
    for index, part in enumerate(parts):
        if part["part_kind"] == "builtin-tool-call":
            newest = part["tool_call_id"] = part["tool_call_id"] or f"builtin:{index}"
            names[newest] = part["tool_name"]
        elif part["part_kind"] == "builtin-tool-return":
            part["tool_call_id"] = part["tool_call_id"] or newest or f"builtin:{index}"
            part["tool_name"] = part["tool_name"] or names.get(part["tool_call_id"], "")
    return parts
