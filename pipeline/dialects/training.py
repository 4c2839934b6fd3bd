"""Thread document -> lines of a data set for training, in the form of Chat Completions (`sft`, `dpo`). Pure.

    {"messages": […], "tools": […], "metadata": {"thread_id", "turn_id", "hash"}}
    {"prompt": […], "chosen": […], "rejected": […], "tools": […], "metadata": {"thread_id", "chosen", "rejected"}}

Bodies of requests are those of any provider, without their messages, as `pipeline.turns.requests` stores them. Each
complete agent turn is a line of `sft`: the turn, the conversation before it on its branch, and its request's
system prompt and tools. Each answer whose versions have different scores is a line of `dpo`: the best and the worst.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pipeline.dialects.exports import tool_name
from pipeline.dialects.openai_chat import formats
from pipeline.dialects.wire_values import text_or_none
from pipeline.turns.branches import BRANCH, VERSION, one_branch
from pipeline.turns.canonical import turn_hash
from pipeline.turns.newest_results import for_models
from pipeline.turns.requests import named
from topics.json_text import Fields, present

KEPT: Final = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal")
SYSTEM: Final = ("system", "instructions", "systemInstruction")
SCHEMAS: Final = ("parameters", "input_schema", "parametersJsonSchema")


def sft(document: Fields, bodies: Mapping[str, Fields]) -> Iterator[Fields]:
    """Yield a line for each complete agent turn with output of the model. `bodies`: requests to models, by hash."""
    for turn in document["turns"]:
        if not _says_something(document, turn):
            continue
        chat = _chat(document, turn)
        while chat[-1]["role"] != "assistant":  # a result that the model has not read
            chat.pop()
        asked = asked_in(turn, bodies)
        yield {"messages": [*_system(asked), *chat], "tools": tools_of(asked), "metadata": provenance(document, turn)}


def dpo(document: Fields, bodies: Mapping[str, Fields], scored: Callable[[Fields], float | None]) -> Iterator[Fields]:
    """Yield a line for each answer whose versions have different scores: the best version, and the worst.

    `scored`: the score of a turn, None if there is none. Of equal scores the newer version counts.
    """
    versions: dict[str, list[tuple[float, int, Fields]]] = {}
    for index, turn in enumerate(document["turns"]):
        version = turn.get(BRANCH, {}).get(VERSION)
        if version is None or not _says_something(document, turn):
            continue
        score = scored(turn)
        if score is not None:
            versions.setdefault(version["first"], []).append((score, index, turn))
    for some in versions.values():
        best, worst = max(some, key=lambda rated: rated[:2]), min(some, key=lambda rated: (rated[0], -rated[1]))
        if best[0] == worst[0]:
            continue
        chosen, rejected = best[2], worst[2]
        asked = asked_in(chosen, bodies)
        yield {
            "prompt": [*_system(asked), *_chat(document, chosen, whole=False)],
            "chosen": _messages(document, [chosen]),
            "rejected": _messages(document, [rejected]),
            "tools": tools_of(asked),
            "metadata": {
                "thread_id": document["thread_id"],
                "chosen": {**_name_and_hash(chosen), "score": best[0]},
                "rejected": {**_name_and_hash(rejected), "score": worst[0]},
            },
        }


def provenance(document: Fields, turn: Fields) -> Fields:
    """Return the position of a turn, and its canonical hash."""
    return {"thread_id": document["thread_id"], **_name_and_hash(turn)}


def _name_and_hash(turn: Fields) -> Fields:
    return {"turn_id": turn.get("meta:turn_id"), "hash": turn_hash(turn)}


def _system(asked: Fields) -> list[Fields]:
    return [{"role": "system", "content": text} for text in system_prompts(asked)]


def _says_something(document: Fields, turn: Fields) -> bool:
    """Return True for a complete agent turn with output of the model."""
    if turn.get("turn_type") != "agent" or turn.get("completion_status") != "complete":
        return False
    return any(message["role"] == "assistant" for message in _messages(document, [turn]))


def asked_in(turn: Fields, bodies: Mapping[str, Fields]) -> Fields:
    """Return the request of the turn's first response that names one; {} if it is not known."""
    return next((bodies.get(name, {}) for name in named(turn)), {})


def needed(document: Fields) -> list[str]:
    """Return the hashes of the requests that `asked_in` reads, each once."""
    return list(dict.fromkeys(name for turn in document["turns"] for name in named(turn)[:1]))


def _chat(document: Fields, turn: Fields, *, whole: bool = True) -> list[Fields]:
    """Return the messages of a turn's branch up to the turn; without the turn's if not `whole`."""
    before: list[Fields] = []
    for other in one_branch(document, turn.get("meta:run_id"))["turns"]:
        if other is not turn or whole:
            before.append(other)
        if other is turn:
            break
    return _messages(document, before)


def _messages(document: Fields, turns: list[Fields]) -> list[Fields]:
    messages = formats.messages(for_models({**document, "turns": turns}))
    return [{key: message[key] for key in KEPT if key in message} for message in messages]


def system_prompts(body: Fields) -> list[str]:
    """Return the texts of the system prompt; the blocks of each message are joined."""
    messages = body.get("messages")
    leading = (
        [message.get("content") for message in messages if isinstance(message, dict)]
        if isinstance(messages, list)
        else []
    )
    places = [*leading, *(holder.get(name) for holder in _places(body) for name in SYSTEM)]
    return [text for prompt in places if (text := _text_of(prompt))]


def tools_of(body: Fields) -> list[Fields]:
    """Return the tools that have a schema or a description; a provider's built-in tools have neither."""
    listed = [holder.get(name) for holder in _places(body) for name in ("tools", "functions")]
    return [_tool(tool) for some in listed if isinstance(some, list) for given in some for tool in _defined(given)]


def _places(body: Fields) -> list[Fields]:
    inner = body.get("request")  # Code Assist wraps the body
    return [body, inner] if isinstance(inner, dict) else [body]


def _text_of(value: Any) -> str:
    """Return the text of a string, of an object with `text` or `parts`, or of a list of those."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _text_of(value.get("text") or value.get("parts"))
    return "\n\n".join(filter(None, map(_text_of, value))) if isinstance(value, list) else ""


def _defined(given: Any) -> Iterator[Fields]:
    """Yield the functions that an entry of `tools` defines: itself, the one that it wraps, or Gemini's list of them."""
    if not isinstance(given, dict):
        return
    declared = given.get("functionDeclarations", given.get("function", given))
    for tool in declared if isinstance(declared, list) else [declared]:
        if isinstance(tool, dict) and isinstance(tool.get("name"), str) and (_schema(tool) or "description" in tool):
            yield tool


def _tool(tool: Fields) -> Fields:
    described = present({"description": text_or_none(tool.get("description"))})
    parameters = _schema(tool) or {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": tool_name(tool["name"]), **described, "parameters": parameters}}


def _schema(tool: Fields) -> Fields | None:
    return next((tool[name] for name in SCHEMAS if isinstance(tool.get(name), dict)), None)
