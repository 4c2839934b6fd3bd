"""The new contents in the bodies of `generateContent` requests.

user    parts: text | inlineData | fileData | functionResponse | …
model   parts as the answers have them

Calls and results may lack ids. A call without one, also of the provider's code, is then numbered among all such
calls of the conversation; a result without one belongs to the first unanswered call of its function.
"""

from collections.abc import Iterable
from typing import Any, Final

from pipeline.dialects.google_adk.parts import return_part, spelled, user_prompts
from pipeline.dialects.model_calls import RequestReader
from topics.json_text import Fields, object_of

CALLS: Final = ("functionCall", "executableCode")
MADE_UP: Final = "call:"  # begins the ids of calls that came without one


def call_id(number: int) -> str:
    """Return the id of the n-th call of the conversation that has none."""
    return f"{MADE_UP}{number}"


def items(body: Any) -> list[Fields]:
    """Return the contents of a body, in one spelling, and with an id for each call and result.

    The beginning of an answer whose rest is requested counts as the last of them: the server keeps it.
    """
    body = _unwrapped(body)
    contents = body.get("contents")
    contents = contents if isinstance(contents, list) else [contents]
    ids = _Ids()
    begun: list[Fields] = [] if token_of(body) is None else [{"role": "model", "parts": []}]
    return [*(ids.given(_content(content)) for content in contents if isinstance(content, dict | str)), *begun]


def token_of(body: Any) -> str | None:
    """Return the token with which a body requests the rest of an answer."""
    body = _unwrapped(body)
    token = body.get("continuationToken", body.get("continuation_token"))
    return token if isinstance(token, str) and token else None


def made_up(contents: Iterable[Fields]) -> int:
    """Return how many calls in these contents came without an id."""
    calls = (part.get(kind) for content in contents for part in content["parts"] for kind in CALLS)
    return sum(isinstance(call, dict) and str(call.get("id")).startswith(MADE_UP) for call in calls)


def is_own(content: Fields) -> bool:
    """Return True if the model said this."""
    return content.get("role") == "model"


def parts(content: Fields) -> list[Fields]:
    """Return the parts of a user's Content: results of functions, then texts and files."""
    if is_own(content):
        return []
    answers = [part for part in content["parts"] if isinstance(part.get("functionResponse"), dict)]
    read = [
        return_part(part, part["functionResponse"]["id"], str(part["functionResponse"].get("name") or ""))
        for part in answers
    ]
    return [*read, *_prompts([part for part in content["parts"] if part not in answers])]


def names(content: Fields) -> dict[str, str]:
    """Return the calls in a Content of the model: id -> name."""
    calls = (part.get("functionCall") for part in content["parts"])
    return {call["id"]: str(call.get("name") or "") for call in calls if isinstance(call, dict)}


class _Ids:
    """Gives ids to the calls and results of a conversation, in their order."""

    def __init__(self) -> None:
        self.made = 0
        self.unanswered: list[tuple[str, str]] = []  # (name, id)

    def given(self, content: Fields) -> Fields:
        return {**content, "parts": [self._given(part) for part in content["parts"]]}

    def _given(self, part: Fields) -> Fields:
        call, answer, code = part.get("functionCall"), part.get("functionResponse"), part.get("executableCode")
        if isinstance(code, dict):
            code = spelled(code)
            if not _is_id(code.get("id")):
                code["id"], self.made = call_id(self.made), self.made + 1
            return {**part, "executableCode": code}
        if isinstance(call, dict):
            call = spelled(call)
            if not _is_id(call.get("id")):
                call["id"], self.made = call_id(self.made), self.made + 1
            self.unanswered.append((str(call.get("name")), call["id"]))
            return {**part, "functionCall": call}
        if isinstance(answer, dict):
            answer = spelled(answer)
            if not _is_id(answer.get("id")):
                name = str(answer.get("name"))
                answer["id"] = next(
                    (call_id for called, call_id in self.unanswered if called == name), f"return:{name}"
                )
            self.unanswered = [pair for pair in self.unanswered if pair[1] != answer["id"]]
            return {**part, "functionResponse": answer}
        return part


def _unwrapped(body: Any) -> Fields:
    """Return a body, which Code Assist wraps; {} if it is no object."""
    outer: Fields = object_of(body)
    inner = outer.get("request")
    return inner if isinstance(inner, dict) else outer


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _content(content: Fields | str) -> Fields:
    if isinstance(content, str):
        return {"role": "user", "parts": [{"text": content}]}
    fields = spelled(content)
    parts = fields.get("parts")
    return {
        **fields,
        "parts": [spelled(part) for part in parts if isinstance(part, dict)] if parts.__class__ is list else [],
    }


def _prompts(parts: list[Fields]) -> list[Fields]:
    try:
        return user_prompts(parts)
    except (TypeError, KeyError, AttributeError):  # a body may be any JSON
        content = [{"kind": "custom:google-adk", "part": part} for part in parts]
        return [{"part_kind": "user-prompt", "content": content}]


READER: Final = RequestReader(items, is_own, parts, names)
