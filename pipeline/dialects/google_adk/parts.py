"""Parts of Gemini contents -> ThreadProtocol parts.

    text                     text, or thinking (`thought`)
    functionCall             tool-call
    functionResponse         tool-return
    executableCode           builtin-tool-call `code_execution`
    codeExecutionResult      builtin-tool-return
    inlineData, fileData     file
    any other                custom:google-adk

Fields that ThreadProtocol lacks are kept in `meta:adk` of the part, under ADK's names; a signature is the part's
`signature` if the part is thinking, and `meta:thought_signature` otherwise.

ADK's servers write camelCase, Python's `model_dump` snake_case: both become camelCase here.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.wire_values import call_arguments, identifier_of_base64, text_or_none
from pipeline.turns.media_kinds import url_kind
from topics.json_text import Fields, present

META: Final = "meta:adk"
CODE: Final = "code_execution"
STANDARD: Final = str.maketrans("-_", "+/")  # Python's JSON has base64url, all other servers' standard base64


def spelled(value: Any) -> Fields:
    """Return an object of ADK with its keys in camelCase and without nulls; inner objects are unchanged.

    Raises TypeError if the value is not an object.
    """
    if not isinstance(value, dict):
        raise TypeError(f"an object is expected, not {type(value).__name__}")
    return {camel(key): item for key, item in value.items() if item is not None}


@lru_cache(maxsize=1024)
def camel(key: str) -> str:
    """Return a key in camelCase: usage_metadata -> usageMetadata; a key with a leading underscore is unchanged."""
    if "_" not in key or key.startswith("_"):
        return key
    first, *words = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in words)


def parts_of(content: Any) -> dict[int, Fields]:
    """Return the non-empty parts of a Content by their index, in one spelling. Raises TypeError if it is malformed."""
    if content is None:
        return {}
    listed = spelled(content).get("parts")
    if listed is not None and not isinstance(listed, list):
        raise TypeError("parts are a list")
    parts = {index: spelled(part) for index, part in enumerate(listed or ())}
    return {index: part for index, part in parts.items() if part.get("text") or part.keys() - {"text", "thought"}}


def response_part(part: Fields, fallback_id: str, code_id: str | None) -> Fields:
    """Return a part of an agent's whole event.

    `fallback_id`: for a part without an id; `code_id`: that of the code that was run before it.
    """
    if "text" in part:
        return _text_part(part)
    if "functionCall" in part:
        return _call(part, fallback_id)
    if "executableCode" in part:
        code = spelled(part["executableCode"])
        call: Fields = {
            "part_kind": "builtin-tool-call",
            "tool_name": CODE,
            "tool_call_id": _text_or(code.pop("id", None), fallback_id),
            "args": code,
        }
        return _with_rest(call, part, "executableCode")
    if "codeExecutionResult" in part:
        result = spelled(part["codeExecutionResult"])
        answer: Fields = {
            "part_kind": "builtin-tool-return",
            "tool_name": CODE,
            "tool_call_id": _text_or(result.pop("id", None), code_id or fallback_id),
            "status": "success" if result.get("outcome", "OUTCOME_OK") == "OUTCOME_OK" else "error",
            "content": result,
        }
        return _with_rest(answer, part, "codeExecutionResult")
    held = _held_file(part)
    if held is not None:
        binary = held["kind"] == "binary"
        content = held if binary else {"url": held["url"], "content_type": held["media_type"]}
        return _with_rest({"part_kind": "file", "content": content}, part, "inlineData", "fileData")
    return {"part_kind": "custom:google-adk", "part": part}


def return_part(part: Fields, call_id: str, name: str) -> Fields:
    """Return a functionResponse; its content shows whether the tool failed."""
    answer = spelled(part["functionResponse"])
    content = answer.pop("response", None)
    failed = isinstance(content, dict) and any(content.get(key) for key in ("error", "isError", "is_error"))
    fields: Fields = {
        "part_kind": "tool-return",
        "tool_name": name,
        "tool_call_id": call_id,
        "status": "error" if failed else "success",
        "content": content,
    }
    rest = {key: value for key, value in answer.items() if key not in ("id", "name")}
    rest |= {key: value for key, value in part.items() if key != "functionResponse"}
    return {**fields, META: rest} if rest else fields


def user_prompts(parts: Iterable[Fields]) -> list[Fields]:
    """Return a user's Content as one user-prompt part; empty if it has no content."""
    content = [_content_item(part) for part in parts]
    if not content:
        return []
    plain = len(content) == 1 and isinstance(content[0], str)
    return [{"part_kind": "user-prompt", "content": content[0] if plain else content}]


def _text_part(part: Fields) -> Fields:
    text = part["text"] + ""
    if part.get("thought") is True:
        thought = {"part_kind": "thinking", "content": text}
        thought |= present({"signature": text_or_none(part.get("thoughtSignature"))})
        return _with_rest(thought, part, "text", "thought", signature=False)
    return _with_rest({"part_kind": "text", "content": text}, part, "text", "thought")


def _call(part: Fields, fallback_id: str) -> Fields:
    call = spelled(part["functionCall"])
    fields: Fields = {
        "part_kind": "tool-call",
        "tool_name": call.pop("name") + "",
        "tool_call_id": _text_or(call.pop("id", None), fallback_id),
        "args": call_arguments(call.pop("args", None)),
    }
    return _with_rest(fields, {**part, **call}, "functionCall")


def _with_rest(fields: Fields, part: Fields, *used: str, signature: bool = True) -> Fields:
    rest = {key: value for key, value in part.items() if key not in used and key != "thoughtSignature"}
    if rest:
        fields[META] = rest
    if signature and isinstance(part.get("thoughtSignature"), str):
        fields[SIGNATURE] = part["thoughtSignature"]
    return fields


def _content_item(part: Fields) -> Any:
    if isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"} and part.get("thought") is not True:
        return part["text"]
    held = _held_file(part)
    return held if held is not None else {"kind": "custom:google-adk", "part": part}


def _held_file(part: Fields) -> Fields | None:
    """Return the file of a part: by value, or by address."""
    if "inlineData" in part:
        blob = spelled(part["inlineData"])
        data = (blob.get("data") or "") + ""
        binary = {"kind": "binary", "data": data.translate(STANDARD), "media_type": _media_type(blob)}
        return {**binary, "identifier": identifier_of_base64(binary["data"])} | _filename(blob)
    if "fileData" in part:
        file = spelled(part["fileData"])
        url, media_type = file["fileUri"] + "", _media_type(file)
        return {
            "kind": url_kind(media_type),
            "url": url,
            "media_type": media_type,
            "identifier": identifier_of_base64(url),
        } | (_filename(file))
    return None


def _filename(file: Fields) -> Fields:
    name = file.get("displayName")
    return {"meta:filename": name} if isinstance(name, str) else {}


def _media_type(file: Fields) -> str:
    return _text_or(file.get("mimeType"), "application/octet-stream")


def _text_or(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) and value else otherwise
