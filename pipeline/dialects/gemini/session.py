"""Sessions of Gemini CLI (~/.gemini/tmp/PROJECT/chats/session-*.jsonl) -> runs, whose events are those of its API.

A message is written again whenever it has grown: by thoughts, tokens, calls, or their results.

| line | what it does |
|---|---|
| a message of `user` | a run begins |
| a message of `gemini`, the new part of it | a piece of the response; results of its calls are the next request |
| a message of `info`, `warning`, `error` | SystemMessage data-app-gemini-cli.TYPE |
| the session's ids | the thread; a sub-agent's file is a thread of its own |
| `$set` | the title, where it has a `summary`; a history that was rewritten for the model was said before |
| `$rewindTo` | the next run continues the one before those that were taken back |

Earlier versions keep a session in one JSON object, whose `messages` are such lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.dialects.model_calls import REQUEST
from pipeline.dialects.transcript import MAIN, MAX_HELD_LINES, Homes, RunEvent, RunOpened, RunOver, Step, texts
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields, filled, present

COUNTS: Final = {
    "input": "promptTokenCount",
    "output": "candidatesTokenCount",
    "cached": "cachedContentTokenCount",
    "thoughts": "thoughtsTokenCount",
    "tool": "toolUsePromptTokenCount",
    "total": "totalTokenCount",
}
CONTEXT: Final = "<session_context>"


@dataclass(slots=True, eq=False)
class Known:
    """The parts of a message that were read; its thoughts only grow in number."""

    thoughts: int = 0
    has_content: bool = False
    counted: bool = False
    calls: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)


class Chat:
    """The reader of a file. `parent`: the session that started it as a sub-agent."""

    dialect: Final = "gemini"

    def __init__(self, file: str, name: str, homes: Homes, parent: str | None = None) -> None:
        self._file = file
        self._homes = homes
        self._parent = parent
        self._session = name
        self._title: str | None = None
        self._folders: list[str] = []
        self._known: dict[str, Known] = {}  # by message, in their order
        self._runs: dict[str, int] = {}  # runs of the branch -> number of messages known when the run began
        self._open = self._copied = False
        self._writing = False  # the newest answer may continue
        self._words: list[Fields] = []  # contents of the next request
        self._words_at = 0
        self._at = 0
        self._later: list[Fields] = []

    def read(self, line: Fields) -> Iterator[Step]:
        """Yield the steps of the next line."""
        if "$rewindTo" in line:
            yield from self._rewind(line["$rewindTo"])
        elif "$set" in line:
            self._describe(line["$set"])
        elif "id" not in line:
            self._describe(line)
        else:
            self._at = max(self._at, epoch_ms(line.get("timestamp")) or 0)
            yield from self._message(line["type"] + "", line)

    def _describe(self, facts: Fields) -> None:
        self._session = str(facts.get("sessionId") or self._session)
        self._title = str(facts.get("summary") or "") or self._title
        self._folders = [str(directory) for directory in facts.get("directories") or self._folders]

    def _message(self, kind: str, message: Fields) -> Iterator[Step]:
        name, new = message["id"] + "", message["id"] not in self._known
        known = self._known.setdefault(name, Known())
        if kind == "gemini":
            yield from self._answer(name, known, message)
        elif kind == "user" and new:
            parts = _parts(message["content"])
            context = "".join(texts(parts)).lstrip().startswith(CONTEXT)  # the program sends it in the user's name
            if not context and not all("functionResponse" in part for part in parts):  # calls have these, too
                yield from self._begin(name, parts)
        elif kind != "user" and new:
            event = {"type": f"gemini-cli.{kind}", "content": message["content"]}
            if self._open:
                yield from self._emit(event)
            else:
                self._later = [*self._later, event][-MAX_HELD_LINES:]

    def _begin(self, run: str, parts: list[Fields]) -> Iterator[Step]:
        yield from self._end()
        info: Fields = {"imported": True, "agent_name": "Gemini CLI", "provider_name": "google"}
        metadata = {"cwd": self._folders[0]} if self._folders else None
        info["thread"] = filled({"title": self._title, "metadata": metadata})
        info |= filled({"parent_thread_id": self._parent, "continues": next(reversed(self._runs), None)})
        self._copied = not self._homes.claim(run, self._file, self._session)
        self._open, self._writing = True, False
        self._runs[run] = len(self._known) - 1
        self._words, self._words_at = [{"role": "user", "parts": parts}] if parts else [], self._at
        if not self._copied:
            yield RunOpened(MAIN, self._session, run, "agent" if self._parent else "gemini", info)
        if parts:
            yield from self._ask({})
        later, self._later = self._later, []
        for event in later:
            yield from self._emit(event)

    def _answer(self, name: str, known: Known, message: Fields) -> Iterator[Step]:
        if not self._open:
            yield from self._begin(name, [])
        thoughts, tokens = message.get("thoughts") or [], message.get("tokens")
        parts = [{"text": _thought(thought), "thought": True} for thought in thoughts[known.thoughts :]]
        known.thoughts = len(thoughts)
        if not known.has_content:
            content = [part for part in _parts(message.get("content") or []) if part.get("text") != ""]
            parts, known.has_content = [*parts, *content], bool(content)
        calls = [call for call in message.get("toolCalls") or [] if call["id"] not in known.calls]
        known.calls.update(call["id"] + "" for call in calls)
        for part in parts:
            yield from self._piece(name, known, message, part)
        if tokens and not known.counted and (self._writing or calls):
            known.counted = True
            counts = {COUNTS[key]: count for key, count in tokens.items() if key in COUNTS and count}
            yield from self._piece(name, known, message, None, counts)
        for call in calls:
            asked = {key: call[key] for key in ("id", "name", "args")}
            yield from self._piece(name, known, message, {"functionCall": asked})
        self._hear(known, message.get("toolCalls") or [])

    def _piece(
        self, name: str, known: Known, message: Fields, part: Fields | None, counts: Fields | None = None
    ) -> Iterator[Step]:
        """Yield a piece of the answer: always in the same order and number, however often the message was rewritten."""
        if part is not None or not self._writing:
            yield from self._ask(message)
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        piece = {"responseId": name, "candidates": None if part is None else [candidate], "usageMetadata": counts}
        yield from self._emit(present(piece | {"modelVersion": message.get("model")}), ends=not known.calls)

    def _hear(self, known: Known, calls: list[Fields]) -> None:
        """Add the results of calls to the next request."""
        for call in calls:
            if call.get("result") is None or call["id"] in known.answered:
                continue
            known.answered.add(call["id"])
            parts = _parts(call["result"])
            if not any("functionResponse" in part for part in parts):
                answer = {"id": call["id"], "name": call["name"], "response": {"output": "".join(texts(parts))}}
                parts = [{"functionResponse": answer}]
            self._words_at = self._words_at if self._words else self._at
            self._words.append({"role": "user", "parts": parts})

    def _ask(self, message: Fields) -> Iterator[Step]:
        """Yield the request that this message answers, unless the message continues an answer."""
        if self._writing and not self._words:
            return
        body = {"model": message.get("model"), "contents": self._words}
        self._words, self._writing = [], True
        yield from self._emit({"type": REQUEST, "request": present(body)}, self._words_at)

    def _rewind(self, message: Any) -> Iterator[Step]:
        yield from self._end()
        names = list(self._known)
        first = names.index(message) if message in self._known else 0
        self._runs = {run: began for run, began in self._runs.items() if began < first}

    def _end(self) -> Iterator[Step]:
        if not self._open:
            return
        if self._words:
            yield from self._ask({})
        self._open = False
        if not self._copied:
            yield RunOver(MAIN, "complete")

    def _emit(self, event: Fields, at: int | None = None, *, ends: bool = False) -> Iterator[Step]:
        if not self._copied:
            yield RunEvent(MAIN, event, self._at if at is None else at, ends)


def _parts(content: Any) -> list[Fields]:
    listed = content if isinstance(content, list) else [content]
    return [part if isinstance(part, dict) else {"text": part + ""} for part in listed]


def _thought(thought: Fields) -> str:
    subject, description = thought.get("subject"), thought.get("description")
    return "\n".join(text for text in (f"**{subject}**" if subject else "", str(description or "")) if text)
