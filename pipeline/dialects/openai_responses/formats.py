"""Thread document -> input items of the Responses API.

Turns that came over the wire are restored from `meta:openai_responses`: reasoning with its encrypted content, the
server's tools. In other threads, thoughts, files of the model and sources are left out; other providers' own tool
calls become function calls with results. Each call is followed by its result: an unanswered one is left out, unless the
thread ends with it.

Back: histories of the Responses API (input items) -> exchanges.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects import model_calls
from pipeline.dialects.asked_parts import write
from pipeline.dialects.exports import OwnIds, args_text, call_id, spoken, tool_name
from pipeline.dialects.history import MessagePlace, exchanges
from pipeline.dialects.openai_responses import request
from pipeline.dialects.openai_responses.keys import META, REFUSAL
from pipeline.dialects.openai_responses.output import Output
from pipeline.dialects.wire_values import text_or_dumped
from topics import json_text
from topics.json_text import Fields, filled, object_of
from topics.part_kinds import ANSWERS, CALLS

# Items that are kept unchanged, and a key without which it is another wire's block of the same name.
OWN_BLOCKS: Final = {
    "additional_tools": "tools",
    "compaction": "encrypted_content",
    "configuration_update": "type",
    "mcp_approval_request": "server_label",
    "mcp_approval_response": "approval_request_id",
    "mcp_list_tools": "server_label",
    "program": "call_id",
    "program_output": "call_id",
    "tool_search_call": "arguments",
    "tool_search_output": "tools",
}
TOOLS: Final = {"local_shell_call": "action", "apply_patch_call": "operation", "shell_call": "action"}


def messages(document: Fields) -> list[Fields]:
    """Return a thread's items, oldest first; without instructions, which threads do not contain."""
    messages: list[Fields] = []
    for turn in document["turns"]:
        for kind, message in spoken(turn):
            messages += (
                _items_of_response(message.get("parts", []))
                if kind == "answered"
                else _items_of_request(message.get("parts", ()))
            )
    return list(_apart(_paired(messages)))


def _items_of_request(parts: Any) -> Iterator[Fields]:
    for part in parts:
        kind = part.get("part_kind", "")
        if kind in ANSWERS and (kind == "tool-return" or part.get("tool_name")):
            yield _result(part)
        elif kind in ("user-prompt", "retry-prompt"):
            content = part.get(META, {}).get("blocks") or _content(part.get("content"))
            if content != []:  # servers refuse it
                yield {"role": "user", "content": content}
        elif kind == "file":
            yield {"role": "user", "content": [_block(part.get("content"))]}
        elif kind.startswith("custom:") and _is_own_block(part):
            yield part["block"]


def _items_of_response(parts: list[Fields]) -> Iterator[Fields]:
    """Yield the parts of a response as items; the parts of one thought are one item."""
    for index, part in enumerate(parts):
        kind, meta = part.get("part_kind", ""), part.get(META, {})
        if kind == "text" and part.get("content"):
            yield _message(part, meta)
        elif kind == "thinking" and meta.get("item") is True and part.get("thinking_id"):
            yield reasoning(part, meta, parts[index + 1 :])
        elif "item" in meta and isinstance(meta["item"], dict):
            yield restored(meta["item"], parts[index + 1 :])
        elif kind in CALLS:
            yield call(part, meta)
        elif kind == "builtin-tool-return" and (meta or not _has_item(part, parts)):
            yield _result(part)
        elif kind.startswith("custom:") and _is_own_block(part):
            yield part["block"]


def _message(part: Fields, meta: Fields) -> Fields:
    """Return a message.

    A plain text has the short form; only an output message, with an id and a status, can contain a refusal or sources.
    """
    phase = {"phase": meta["phase"]} if "phase" in meta else {}
    if part.get(REFUSAL):
        block = {"type": "refusal", "refusal": part["content"]}
    elif meta.get("annotations"):
        block = {"type": "output_text", "text": part["content"], "annotations": meta["annotations"]}
    else:
        return {"role": "assistant", "content": part["content"], **phase}
    identity = {"type": "message", "id": f"msg_{sha256(part['content'].encode()).hexdigest()[:32]}"}
    return {**identity, "role": "assistant", "status": "completed", "content": [block], **phase}


def reasoning(part: Fields, meta: Fields, behind: list[Fields]) -> Fields:
    """Return the parts of a thought as an item."""
    texts = [part.get("content") or ""]
    for later in behind:
        if later.get("part_kind") != "thinking" or META in later:
            break
        texts.append(later.get("content") or "")
    texts = [text for text in texts if text]
    summaries = texts if meta.get("summarized") else []
    raw = meta.get("raw_content", []) if meta.get("summarized") else texts
    item: Fields = {"type": "reasoning", "id": part.get("thinking_id", "")}
    item["summary"] = [{"type": "summary_text", "text": text} for text in summaries]
    content = [{"type": "reasoning_text", "text": text} for text in raw]
    return item | filled({"content": content, "encrypted_content": part.get("signature")})


def restored(item: Fields, behind: list[Fields]) -> Fields:
    """Return an item of the server's tools; a picture's data is in the file after it."""
    if item.get("type") != "image_generation_call":
        return item
    files = (later for later in behind[:2] if later.get("part_kind") == "file")
    return {**item, "result": object_of(next((later.get("content") for later in files), None)).get("data")}


def call(part: Fields, meta: Fields) -> Fields:
    """Return a call of a tool as an item."""
    kind, args = str(meta.get("type") or "function_call"), part.get("args")
    identity = {"type": kind, "call_id": part.get("tool_call_id") or call_id("")}
    if kind in TOOLS:
        return {**meta, **identity, TOOLS[kind]: args, "status": "completed"}
    if kind == "computer_call":
        fields = object_of(args)
        return {"id": identity["call_id"], **identity, "pending_safety_checks": [], **fields, "status": "completed"}
    if kind == "custom_tool_call":
        return {
            **identity,
            "name": tool_name(part.get("tool_name")),
            "input": args.get("input") if isinstance(args, dict) else "",
        }
    call_item = {"type": "function_call", "call_id": identity["call_id"], "name": tool_name(part.get("tool_name"))}
    call_item["arguments"] = args_text(args)
    return call_item | {key: meta[key] for key in ("namespace",) if key in meta}


def _result(part: Fields) -> Fields:
    content, kind = part.get("content"), str(part.get(META, {}).get("type") or "function_call_output")
    blocks = isinstance(content, list) and bool(content) and all(_is_block(block) for block in content)
    if kind == "function_call_output" and not blocks and not isinstance(content, str):
        content = "" if content is None else json_text.dumps(content)
    failed = part.get("status", "success") != "success"
    status = {"status": "failed" if failed else "completed"} if kind == "apply_patch_call_output" else {}
    return {"type": kind, **status, "call_id": part.get("tool_call_id") or call_id(""), "output": content}


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("type")).startswith("input_")


def _has_item(part: Fields, parts: list[Fields]) -> bool:
    """Return True if the item of its call contains this result already."""
    calls = (other for other in parts if other.get("tool_call_id") == part.get("tool_call_id"))
    return any("item" in other.get(META, {}) for other in calls)


def _is_own_block(part: Fields) -> bool:
    """Return True if the API accepts such an item as input: not a truncated call, nor an item of unknown type."""
    block = part.get("block")
    if not isinstance(block, dict) or f"custom:{block.get('type')}" != part["part_kind"]:
        return False
    return OWN_BLOCKS.get(block["type"]) in block and not (block["type"] == "compaction" and "content" in block)


def _paired(items: list[Fields]) -> list[Fields]:
    """Return calls with their results, and results with their calls; open calls stay only at the thread's end."""
    answered = {item["call_id"] for item in items if str(item.get("type")).endswith("_output") and "call_id" in item}
    called = {item["call_id"] for item in items if str(item.get("type")).endswith("_call") and "call_id" in item}
    asked = [n for n, item in enumerate(items) if item.get("role") == "user" or _is_output(item)]
    last = asked[-1] if asked else -1
    return [
        item
        for index, item in enumerate(items)
        if "call_id" not in item
        or (item["call_id"] in called if _is_output(item) else item["call_id"] in answered or index > last)
    ]


def _apart(items: list[Fields]) -> Iterator[Fields]:
    """Yield items with a unique id for each call: of calls that share one, OpenAI's Agents SDK keeps the newest."""
    ids = OwnIds(item["call_id"] for item in items if "call_id" in item)
    for item in items:
        if "call_id" not in item:
            yield item
        else:
            named = ids.of_result if _is_output(item) else ids.of_call
            yield {**item, "call_id": named(item["call_id"])}


def _is_output(item: Fields) -> bool:
    return str(item.get("type")).endswith("_output")


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [_block(piece) for piece in content] if isinstance(content, list) else json_text.dumps(content)


def _block(piece: Any) -> Fields:
    """Return a piece of content as a block of a user's message."""
    if not isinstance(piece, dict):
        return {"type": "input_text", "text": text_or_dumped(piece)}
    media, kind = str(piece.get("media_type") or ""), piece.get("kind")
    if isinstance(piece.get("data"), str):
        url = f"data:{media};base64,{piece['data']}"
        if media.startswith("image/"):
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        return {"type": "input_file", "file_data": url, "filename": f"file.{media.partition('/')[2] or 'bin'}"}
    if isinstance(piece.get("url"), str):
        if kind == "image-url":
            return {"type": "input_image", "image_url": piece["url"], "detail": "auto"}
        return {"type": "input_file", "file_url": piece["url"]}
    if kind == "custom:openai_responses" and isinstance(piece.get("block"), dict):
        return dict(piece["block"])
    if kind == "text-content" and isinstance(piece.get("content"), str):
        return {"type": "input_text", "text": piece["content"]}
    return {"type": "input_text", "text": json_text.dumps(piece)}


def split(messages: Messages) -> list[Messages]:
    """Cut before each user message that follows an answer without open calls."""
    return exchanges([item for item in messages if _speaker(item) not in ("system", "developer")], _place_in_exchange)


def _place_in_exchange(item: Fields) -> MessagePlace | None:
    speaker = _speaker(item)
    if speaker == "user":
        return MessagePlace.PROMPT
    if not request.is_own(item):
        return None
    return MessagePlace.MIDDLE if speaker is None else MessagePlace.ANSWER


def _speaker(item: Fields) -> Any:
    """Return the role of an item that is a message; None for any other."""
    kind = item.get("type") or ("message" if item["role"] else "")
    return item["role"] if kind == "message" else None


def fill(builder: Builder, messages: Messages) -> str | None:
    """Fill the builder with the calls of a finished run: the model's items in a row are one response."""
    model_calls.begin(builder, request.READER)
    first = next((n for n, item in enumerate(messages) if request.is_own(item)), len(messages))
    write(builder, [part for item in messages[:first] for part in request.parts(item)], opening=True)
    items: list[Fields] = []
    for item in messages[first:]:
        if request.is_own(item) or item.get("type") == "shell_call_output":
            items.append(item)
            continue
        _respond(builder, items)
        write(builder, request.parts(item))
    _respond(builder, items)
    return "complete" if first < len(messages) else None


def _respond(builder: Builder, items: list[Fields]) -> None:
    if not items:
        return
    response = builder.open_response()
    output = Output(response, final=list(items))
    output.settle(whole=True)
    for call in output.calls():
        builder.calls[call.fields["tool_call_id"]] = (response, call)
    items.clear()


READER: Final = Reader(split, fill)
