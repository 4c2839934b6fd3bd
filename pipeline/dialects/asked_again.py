"""Rebuilds the request that a stored response answered: its body, and the messages before the response. Pure.

A thread has the body of a request without its messages (`pipeline.turns.requests`), and the messages as turns; they are
written in the provider's form again, after redaction. References to state on the provider's server are left out, as the
request contains the whole conversation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pipeline.dialects.anthropic import formats as anthropic
from pipeline.dialects.google_adk import formats as google_adk
from pipeline.dialects.openai_chat import formats as openai_chat
from pipeline.dialects.openai_responses import formats as openai_responses
from pipeline.turns.branches import one_branch
from pipeline.turns.newest_results import for_models
from pipeline.turns.requests import request_of
from topics.json_text import Fields, list_of, present
from turnmill.capture.providers import APIS, CHAT, GENERATE, MESSAGES, RESPONSES

# The wires of providers' APIs: the member of a request for its messages, and the function that writes them.
HISTORY: Final[Mapping[str, tuple[str, Callable[[Fields], list[Fields]]]]] = {
    MESSAGES: (APIS[MESSAGES].history, anthropic.messages),
    GENERATE: (APIS[GENERATE].history, google_adk.contents),
    CHAT: (APIS[CHAT].history, openai_chat.messages),
    RESPONSES: (APIS[RESPONSES].history, openai_responses.messages),
}
ON_SERVER: Final = ("previous_response_id", "conversation", "background", "thread", "continuationToken")


def answered(turn: Fields) -> tuple[Fields, int] | None:
    """Return the first response of an agent turn that names its request, and its index among the turn's messages."""
    if turn.get("turn_type") != "agent":
        return None
    for index, message in enumerate(turn.get("messages", ())):
        if message.get("message_type") == "response":
            return (message, index) if request_of(message) else None
    return None


def request_again(document: Fields, turn: Fields, index: int, asked: Fields, dialect: str) -> Fields:
    """Return the body of the request that the message at this index of a turn answered. `asked`: as it is stored."""
    member, write = HISTORY[dialect]
    before: list[Fields] = []
    for other in one_branch(document, turn.get("meta:run_id"))["turns"]:
        if other is turn:
            break
        before.append(other)
    led = [*before, {**turn, "messages": turn.get("messages", [])[:index]}]
    body = {name: value for name, value in asked.items() if name not in ON_SERVER}
    leading = body.pop(member, None)  # the system prompt, in Chat Completions
    return {**body, member: [*list_of(leading), *write(for_models({**document, "turns": led}))]}


def with_system(body: Fields, dialect: str, text: str) -> Fields:
    """Return a request with another system prompt."""
    if dialect == CHAT:
        messages: Sequence[Any] = body["messages"]
        leading = next(
            (n for n, message in enumerate(messages) if message.get("role") not in ("system", "developer")), None
        )
        role = messages[0]["role"] if leading else "system"
        return {**body, "messages": [{"role": role, "content": text}, *messages[leading or 0 :]]}
    if dialect == GENERATE:
        return {**body, "systemInstruction": {"parts": [{"text": text}]}}
    return {**body, "system" if dialect == MESSAGES else "instructions": text}


def with_value(body: Fields, path: str, value: Any) -> Fields:
    """Return a request with a value at a path, as `temperature` or `generationConfig.temperature`; None removes it.

    Raises ValueError for a path through a value that is not an object.
    """
    name, _, rest = path.partition(".")
    if rest:
        inner = body.get(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{name} is no object")
        return {**body, name: with_value(inner, rest, value)}
    return present({**body, name: value})
