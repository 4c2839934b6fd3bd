"""Sessions of opencode (~/.local/share/opencode) -> runs, whose events are those of the AI SDK on which it is built.

| kept | what it does |
|---|---|
| a message of the user | a run begins; what the program adds to it (`synthetic`, `ignored`) is left out |
| one of the program alone, as behind a compaction | belongs to the run |
| `text`, `reasoning` | a text, a thought |
| `tool` | a call, and its result or its error; files of the result are beside its text |
| `step-start`, `step-finish` | a response and its usage |
| an answer that is over | the end of the run, unless tools were called; an `error` interrupts it |
| a session with a `parent_id` | a sub-agent: a thread spawned from the session's |
| a prompt that another session has, to the millisecond | a copy in a fork: what follows it is a branch there |
| a message that is gone when another prompt comes | it was taken back: the next run continues the one before |
| `snapshot`, `patch`, `agent` | nothing: what is on the disk, and what the text says |
| `compaction`, and any other part | SystemMessage data-app-opencode.TYPE |
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.dialects.transcript import Homes, RunEvent, RunOpened, RunOver, Step
from pipeline.dialects.vercel_ai.content import user_prompt
from topics.json_text import Fields, filled, present

NOTES: Final = frozenset({"snapshot", "patch", "agent"})
WORDS: Final = frozenset({"text", "file", "subtask"})
GOES_ON: Final = ("tool-calls", "unknown")
UNNAMED: Final = ("New session - ", "Child session - ")  # how titles begin that nobody gave
METADATA: Final = {"directory": "cwd", "version": "opencode_version"}
FIRST_WORDS: Final = 100  # characters of a prompt by which its copies are known


@dataclass(slots=True, eq=False)
class Chat:
    """A session so far. `runs`: those of its branch, by its own messages. `well`: its newest answer is whole."""

    thread: str
    runs: dict[str, str] = field(default_factory=dict)
    open: bool = False
    copied: bool = False
    well: bool = True
    at: int = 0


class Conversations:
    """The reader of all sessions of a database, or of a session in files. Each of them is a chain."""

    dialect: Final = "vercel-ai"

    def __init__(self, file: str, homes: Homes) -> None:
        self._file = file
        self._homes = homes
        self._chats: dict[str, Chat] = {}

    def read(self, line: Fields) -> Iterator[Step]:
        """Yield the steps of the next line."""
        session, message = line["session"], line["message"]
        name = session["id"]
        chat = self._chats.setdefault(name, Chat(name))
        chat.at = max(chat.at, message["time"]["created"])
        if line.get("earlier") is not None:
            chat.runs = {run_id: run for run_id, run in chat.runs.items() if run_id in line["earlier"]}
        if "parts" in line:
            words = [word for part in line["parts"] if (word := _word(part)) is not None]
            if words or not chat.open:
                yield from self._begin(chat, session, message, words)
            events = [(_other(part), chat.at) for part in line["parts"] if part["type"] not in NOTES | WORDS]
        else:
            if not chat.open:
                yield from self._begin(chat, session, message, [])
            chat.well = "part" not in line and "completed" in message["time"]
            over = message["time"].get("completed") or chat.at
            whole = ((last, over) for last in _end(message))
            events = list(_events(line["part"], chat.at) if "part" in line else whole)
        for event, at in events:
            chat.at = max(chat.at, at)
            if not chat.copied:
                yield RunEvent(name, event, chat.at, event["type"] in ("finish", "abort", "error"))

    def _begin(self, chat: Chat, session: Fields, message: Fields, words: list[Fields]) -> Iterator[Step]:
        if chat.open and not chat.copied:
            yield RunOver(session["id"], "complete" if chat.well else "disconnected")
        run, parent = message["id"], session.get("parent_id")
        same = run if parent else str(words)[:FIRST_WORDS]  # a fork has copies under ids of its own
        first, thread = self._homes.of.setdefault(f"{message['time']['created']} {same}", (run, chat.thread))
        chat.open, chat.well = True, True
        chat.copied = first != run or not self._homes.claim(run, self._file, chat.thread)
        last = next(reversed(chat.runs.values()), None)
        chat.runs[run], chat.thread = first, thread if chat.copied else chat.thread
        if chat.copied:
            return
        model = message.get("model") or message
        about: Fields = {"metadata": {name: session[key] for key, name in METADATA.items() if session.get(key)}}
        if session.get("title") and not session["title"].startswith(UNNAMED) and chat.thread == session["id"]:
            about["title"] = session["title"]
        agent = str(message.get("agent") or "agent") if parent else "opencode"
        facts = {
            "agent_name": agent,
            "model_name": model.get("modelID"),
            "provider_name": model.get("providerID"),
            "parent_thread_id": parent,
            "continues": last,
            "request": {"messages": [{"id": run, "role": "user", "parts": words}]} if words else None,
        }
        yield RunOpened(session["id"], chat.thread, run, agent, {"imported": True, "thread": about, **present(facts)})
        yield RunEvent(session["id"], {"type": "start"}, chat.at)


def _word(part: Fields) -> Fields | None:
    """Return what the user says in a part of his message; None where it is the program's."""
    kind = part["type"]
    if kind == "file":
        named = {"filename": part["filename"]} if part.get("filename") else {}
        return {"type": "file", "url": part["url"] + "", "mediaType": part["mime"] + "", **named}
    if kind not in WORDS or part.get("synthetic") or part.get("ignored"):
        return None
    return {"type": "text", "text": part["prompt"] if kind == "subtask" else part["text"]}


def _events(part: Fields, at: int) -> Iterator[tuple[Fields, int]]:
    """Yield (event, epoch ms) of a part of an answer."""
    kind = part["type"]
    if kind in ("text", "reasoning"):
        name, time = part["id"], part.get("time") or {}
        metadata = {"providerMetadata": part["metadata"]} if part.get("metadata") else {}
        if part["text"] or metadata:
            yield {"type": f"{kind}-start", "id": name}, time.get("start") or at
            yield {"type": f"{kind}-delta", "id": name, "delta": part["text"] + ""}, time.get("start") or at
            yield {"type": f"{kind}-end", "id": name, **metadata}, time.get("end") or at
    elif kind == "tool":
        yield from _call(part, part["state"], at)
    elif kind == "file":
        yield {"type": "file", "url": part["url"] + "", "mediaType": part["mime"] + ""}, at
    elif kind == "step-start":
        yield {"type": "start-step"}, at
    elif kind == "step-finish":
        if counts := _usage(part):
            yield {"type": "data-sys-usage", "data": counts, "transient": True}, at
        yield {"type": "finish-step"}, at
    elif kind not in NOTES:
        yield _other(part), at


def _call(part: Fields, state: Fields, at: int) -> Iterator[tuple[Fields, int]]:
    """Yield a call whose input is whole, and its result."""
    call, time, metadata = {"toolCallId": part["callID"] + ""}, state.get("time") or {}, part.get("metadata") or {}
    rest = {key: value for key, value in metadata.items() if key != "providerExecuted"}
    more = {"providerExecuted": True} if metadata.get("providerExecuted") else {}
    if state["status"] == "pending":
        return
    made = {"type": "tool-input-available", **call, "toolName": part["tool"] + "", "input": state["input"], **more}
    yield {**made, **({"providerMetadata": rest} if rest else {})}, time.get("start") or at
    end = time.get("end") or at
    if state["status"] == "error":
        yield {"type": "tool-output-error", **call, "errorText": str(state["error"]), **more}, end
    elif state["status"] == "completed":
        output, files = state["output"], [_word(file) for file in state.get("attachments") or []]
        if files and (shown := user_prompt([{"type": "text", "text": output}, *files])):
            output = shown["content"]
        yield {"type": "tool-output-available", **call, "output": output, **more}, end


def _usage(step: Fields) -> Fields:
    """Return the counts of a response: opencode's `input` leaves out the caches, and `output` the thoughts.

    In earlier versions, which have no `total`, `output` has the thoughts in it.
    """
    tokens = step["tokens"]
    read, write = tokens["cache"]["read"], tokens["cache"]["write"]
    given, output = tokens["input"] + read + write, tokens["output"]
    counts = {
        "input_tokens": given,
        "output_tokens": max(output, (tokens.get("total") or 0) - given),
        "thinking_tokens": tokens["reasoning"],
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "cost": step.get("cost"),  # none where it is a subscription's
    }
    return filled(counts)


def _end(message: Fields) -> Iterator[Fields]:
    """Yield the event with which an answer ends its run, if it does."""
    error: Any = message.get("error")
    if error:
        text = str((error.get("data") or {}).get("message") or error["name"])
        if error["name"] == "MessageAbortedError":
            yield {"type": "abort", "reason": text}
        else:
            yield {"type": "error", "errorText": text}
    elif "completed" in message["time"] and message.get("finish") not in GOES_ON:
        yield {"type": "finish", **({"finishReason": message["finish"]} if message.get("finish") else {})}


def _other(part: Fields) -> Fields:
    known = {key: value for key, value in part.items() if key not in ("id", "type", "sessionID", "messageID")}
    return {"type": f"opencode.{part['type']}", **known}
