"""The predecessor of a run, and the run that it replaces, by its request and its publisher: `lineage` of a record.

A request that repeats the conversation shows where its run belongs: after the run with the same history. A record keeps
the facts by which `pipeline.turns.run_tree` finds the other run, whichever of the two comes first:

| key | |
|---|---|
| `continues`, `replaces` | run ids, from the publisher |
| `follows` | id of the response that the model's server continues from |
| `checkpoint` | id of the state of the conversation at which the run began, if its server keeps states |
| `checkpoints` | ids of the states that the run saved, oldest first; the last is that of its end |
| `earlier` | hash of all earlier words of the user; absent if the request repeats nothing |
| `words` | hash of `earlier` and the user's new words |
| `answer` | hash of an agent's last text that the request repeats |
| `asked` | the client's id of the user's newest message |
| `again` | the client requests another answer to the same words |
| `beside` | the run is no part of the conversation, and no version of another run |
| `goes_on` | there are no new words: the request has results of tools, or an answer to be continued |
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from topics.json_text import Fields, filled, objects

USERS: Final = frozenset({"user", "human"})
AGENTS: Final = frozenset({"assistant", "ai", "model", "agent"})
RESULTS: Final = frozenset({"tool_result", "tool-result"})
SETTINGS: Final = frozenset({"system", "developer"})
HEX_DIGITS: Final = 32  # of a hash
MAX_ID_CHARACTERS: Final = 500
MAX_CHECKPOINTS: Final = 100  # ids that are kept of a run: half of them the first, half the last

Redacted = Callable[[str], str]


class History(NamedTuple):
    """The conversation that a request repeats: messages of any SDK, oldest first; they may be any JSON.

    `follows`: the response that the model's server continues from. `again`: another answer to the same words is wanted.
    `checkpoint`: the state of the conversation at which the run began; `checkpoints`: those that it saved. `beside`: a
    program asks for something that is no part of the conversation.
    """

    messages: Sequence[Any] = ()
    follows: str | None = None
    again: bool = False
    checkpoint: str | None = None
    checkpoints: Sequence[str] = ()
    beside: bool = False


def lineage(history: History, continues: str | None, replaces: str | None, redacted: Redacted = str) -> Fields:
    """Return `lineage` of a run's record; empty if nothing is known.

    `redacted`: a function from a text to its stored form, so that a removed text can't be guessed from its hash.
    """
    ids = {"continues": continues, "replaces": replaces, "follows": history.follows, "checkpoint": history.checkpoint}
    facts: Fields = {key: value for key, value in ids.items() if value is not None and len(value) <= MAX_ID_CHARACTERS}
    if history.beside:
        return {**facts, "beside": True}
    left = [checkpoint for checkpoint in history.checkpoints if len(checkpoint) <= MAX_ID_CHARACTERS]
    if left:
        half = MAX_CHECKPOINTS // 2
        facts["checkpoints"] = left if len(left) <= MAX_CHECKPOINTS else [*left[:half], *left[-half:]]
    messages = [message for message in history.messages if isinstance(message, dict) and _role(message) not in SETTINGS]
    old, new = _split(messages)
    earlier = _chained(_words(old, redacted), "")
    words = _chained(_words(new, redacted), earlier)
    if not words:
        return facts
    answers = (text for message in reversed(old) if _role(message) in AGENTS for text in _texts(message)[-1:])
    answer = next(answers, None)
    asked = new[-1].get("id") if new else None
    known = {
        "words": words,
        "earlier": earlier,
        "answer": None if answer is None else text_hash(redacted(answer)),
        "asked": asked if isinstance(asked, str) and len(asked) <= MAX_ID_CHARACTERS else None,
        "again": history.again,
        "goes_on": not new,
    }
    return facts | filled(known)


def text_hash(text: str) -> str:
    """Return the hash by which texts are compared, ignoring white space around them."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:HEX_DIGITS]


def _split(messages: list[Fields]) -> tuple[list[Fields], list[Fields]]:
    """Return the earlier messages, and the user's messages at the end."""
    first = len(messages)
    while first and _is_users(messages[first - 1]):
        first -= 1
    return messages[:first], messages[first:]


def _is_users(message: Fields) -> bool:
    """Return True for a message by the user; on some wires, results of tools have the user's role, too."""
    return _role(message) in USERS and not _answers_tools(message)


def _role(message: Fields) -> object:
    role = message.get("role", message.get("type"))
    return role if isinstance(role, str) else None


def _answers_tools(message: Fields) -> bool:
    content = message.get("content")
    blocks = objects(content if isinstance(content, list) else message.get("parts"))
    results = [block for block in blocks if block.get("type") in RESULTS or "functionResponse" in block]
    return bool(results) and len(results) == len(blocks)


def _words(messages: Iterable[Fields], redacted: Redacted) -> list[str]:
    return [redacted("\n".join(_texts(message))) for message in messages if _is_users(message)]


def _chained(texts: Iterable[str], before: str) -> str:
    """Return the hash of texts in their order, following those with the hash `before`; "" without any text."""
    for text in texts:
        before = text_hash(f"{before}\n{text.strip()}")
    return before


def _texts(message: Fields) -> list[str]:
    content = message.get("content", message.get("parts"))
    pieces = content if isinstance(content, list) else [content]
    texts = [piece.get("text") if isinstance(piece, dict) else piece for piece in pieces]
    return [text for text in texts if isinstance(text, str) and text.strip()]
