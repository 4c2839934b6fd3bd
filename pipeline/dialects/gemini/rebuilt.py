"""Restores the whole GenerateContentResponse, and the pieces of its stream, from a stored response. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.dialects.exports import INVALID, args_text, pieces
from pipeline.dialects.gemini.request import MADE_UP
from pipeline.dialects.google_adk.formats import call_fields, part_of
from pipeline.dialects.google_adk.parts import META
from topics.json_text import Fields, filled

REASONS: Final = {"length": "MAX_TOKENS", "content_filter": "SAFETY", "error": "OTHER"}
NAMED: Final = ("functionCall", "executableCode", "codeExecutionResult")
OF_CANDIDATE: Final = frozenset(
    {"finishReason", "finishMessage", "safetyRatings", "citationMetadata", "groundingMetadata", "avgLogprobs"}
    | {"logprobsResult", "tokenCount", "urlContextMetadata"}
)


def whole(response: Fields, beside: Sequence[Fields]) -> Fields:
    """Return the response. `beside`: the system messages that came with it."""
    meta = response.get(META, {})
    body: Fields = call_fields(response) | filled({"responseId": response.get("provider_response_id")})
    body |= {key: value for key, value in meta.items() if key not in OF_CANDIDATE}
    candidate = {key: value for key, value in meta.items() if key in OF_CANDIDATE}
    if "finishReason" in candidate or "promptFeedback" not in meta:
        reason = REASONS.get(response.get("finish_reason", ""), "STOP")
        candidate = {"index": 0, "finishReason": reason, **candidate, "content": _content(response["parts"])}
        body["candidates"] = [candidate, *_others(beside)]
    return body


def pieces_of(body: Fields) -> Iterator[Fields]:
    """Yield the responses of a stream: each part separately, and texts in pieces."""
    head: Fields = {key: body[key] for key in ("responseId", "modelVersion") if key in body}
    for candidate in body.get("candidates") or ():
        content = candidate.get("content") or {}
        for part in content.get("parts") or ():
            for piece in _in_pieces(part):
                partial = {"index": candidate.get("index", 0), "content": {**content, "parts": [piece]}}
                yield {**head, "candidates": [partial]}
    ends = [
        {**choice, "content": {"role": "model", "parts": [{"text": ""}]}} for choice in body.get("candidates") or ()
    ]
    yield {**body, **({"candidates": ends} if ends else {})}


def _in_pieces(part: Fields) -> list[Fields]:
    text = part.get("text")
    if not isinstance(text, str) or part.keys() - {"text", "thought", "thoughtSignature"}:
        return [part]
    thought = {"thought": part["thought"]} if "thought" in part else {}
    *first, last = pieces(text) or [""]
    return [*({"text": piece, **thought} for piece in first), {**part, "text": last}]


def _content(parts: Sequence[Fields]) -> Fields:
    return {
        "role": "model",
        "parts": [_part(part, written) for part in parts for written in part_of(part, is_own=True)],
    }


def _part(part: Fields, written: Fields) -> Fields:
    """Return a part as it came: without an id that we made up, and with malformed arguments as they were."""
    for name in NAMED:
        if name not in written:
            continue
        value = dict(written[name])
        if str(value.get("id")).startswith(MADE_UP) or value.get("id") == "code_execution":
            del value["id"]
        args = part.get("args")
        if name == "functionCall" and isinstance(args, dict) and args.keys() == {INVALID}:
            value["args"] = args_text(args)
        return {**written, name: value}
    return written


def _others(beside: Sequence[Fields]) -> Iterator[Fields]:
    for message in beside:
        if message["event_type"] == "custom:choice":
            data = message["event_data"]
            reason = {"finishReason": data["finish_reason"]} if data["finish_reason"] else {}
            yield {"index": data["index"], "content": _content(data["parts"]), **reason}
