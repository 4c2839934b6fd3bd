"""Rollouts of Codex (~/.codex/sessions/**/rollout-*.jsonl) -> runs, whose events are those of the Responses API.

| line | what it does |
|---|---|
| `session_meta` | the session's id, folder and branch; the session that it was forked from, or spawned by |
| `turn_context` | the model and its settings: part of `turnmill.request` |
| `event_msg` `task_started` | a run begins |
| `response_item`, a message of the user | a run begins, if no such event came; part of the next request |
| `response_item`, context (`<environment_context>`, instructions, `developer`) | beside the next request's messages |
| `response_item`, output of a tool | part of the next request |
| `response_item`, any item of the model | `response.output_item.done` |
| `event_msg` `token_count` | `response.completed`, with the usage, if the total has grown |
| `event_msg` `task_complete`, `turn_aborted` | the run is over |
| `event_msg` `thread_rolled_back` | the next run continues the one before those that were taken back |
| `event_msg` that repeats items, or their progress | nothing |
| `token_usage_record` | nothing: `token_count` contains it; but not that of a compaction |
| `compacted` | `codex.compacted`, with the usage of its record: a call beside the answer; a turn, if it was asked for |
| any other | SystemMessage data-app-codex.TYPE |

Items without an envelope, as in older versions, are read likewise. A forked session begins with a copy of the other
session's lines; the copied runs belong to that session's thread, and are left out.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from pipeline.dialects.model_calls import REQUEST
from pipeline.dialects.openai_responses.request import is_own
from pipeline.dialects.transcript import MAIN, MAX_HELD_LINES, Homes, RunEvent, RunOpened, RunOver, Step, texts
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields, filled, object_of, present

# Events that repeat items, or only show their progress.
REPEATS: Final = frozenset(
    {"user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break"}
    | {"item_started", "item_completed", "raw_response_item", "context_compacted", "thread_settings_applied"}
)
# Messages of the program in the user's name are such elements; HTML, which the user may ask about, has no such names.
CONTEXT: Final = re.compile(
    r"\s*(# AGENTS\.md instructions|<(\w+_\w+|skill|permissions|INSTRUCTIONS)\b.*>\s*$)", re.DOTALL
)
DETAILS: Final = {
    "cached_input_tokens": ("input_tokens_details", "cached_tokens"),
    "cache_write_input_tokens": ("input_tokens_details", "cache_write_tokens"),
    "reasoning_output_tokens": ("output_tokens_details", "reasoning_tokens"),
}
NAMES: Final = {"cwd": "cwd", "cli_version": "codex_version", "originator": "originator"}


class Rollout:
    """The reader of a file. `titles`: of sessions, from Codex's index."""

    dialect: Final = "openai-responses"

    def __init__(self, file: str, name: str, homes: Homes, titles: dict[str, str] | None = None) -> None:
        self._file = file
        self._name = name
        self._homes = homes
        self._titles = titles or {}
        self._meta: Fields = {}
        self._settings: Fields = {}
        self._thread: str | None = None
        self._at = 0
        self._runs: list[str] = []  # of the branch
        self._count = 0
        self._task: str | None = None  # the next run's id, if the file has it
        self._tasks = False  # the file says where its runs begin
        self._open = self._copied = False
        self._asked = self._writing = False  # the run made a request; its answer is incomplete
        self._items = 0  # of the newest answer
        self._words: list[Fields] = []  # items of the next request
        self._words_at = 0
        self._context: list[Fields] = []
        self._later: list[Fields] = []  # events to be sent after it
        self._body: Fields = {}  # of the newest request, without its input
        self._total: Fields = {}
        self._records: dict[str, Any] = {}  # usage by response, since the last compaction

    def read(self, line: Fields) -> Iterator[Step]:
        """Yield the steps of the next line."""
        self._at = max(self._at + 1, epoch_ms(line.get("timestamp")) or 0)  # lines of old versions have no time
        kind, payload = line.get("type"), line.get("payload")
        if not isinstance(payload, dict):  # from before there were envelopes
            kind, payload = ("response_item" if kind else "session_meta"), line
        if kind == "session_meta":
            self._meta = self._meta or payload  # a fork repeats its origin's
        elif kind == "turn_context":
            self._settings = present(payload)
        elif kind == "response_item":
            yield from self._item(payload)
        elif kind == "event_msg":
            yield from self._message(payload["type"] + "", payload)
        elif kind == "token_usage_record":
            self._records[str(payload.get("response_id"))] = payload.get("usage")
        else:
            shown = {key: value for key, value in payload.items() if key != "replacement_history"}
            yield from self._beside(str(kind), shown | (self._compaction(payload) if kind == "compacted" else {}))

    def _compaction(self, payload: Fields) -> Fields:
        """Return the model and the tokens of a compaction, once: a forked session repeats its origin's."""
        response, records = str(payload.get("compaction_response_id")), self._records
        self._records = {}
        usage = records.get(response)
        if not isinstance(usage, dict) or not self._homes.claim(response, self._file, self._thread or ""):
            return {}
        return {"usage": _counts(usage), "model": self._settings.get("model")}

    def _item(self, item: Fields) -> Iterator[Step]:
        kind, role = str(item.get("type") or "message"), item.get("role")
        if role in ("developer", "system") or (role == "user" and _is_context(item)):
            self._context.append(item)
        elif role == "user":
            if not (self._open and self._tasks and self._task is None):
                yield from self._begin(item)
            self._hear(item)
        elif is_own(item):
            if not self._open:
                yield from self._begin(item)
            if self._words or not self._writing:
                yield from self._ask()
            yield from self._emit({"type": "response.output_item.done", "output_index": self._items, "item": item})
            self._items += 1
        elif kind.endswith("_output"):
            self._hear(item)
        elif "record_type" not in item:
            yield from self._beside(kind, item)

    def _hear(self, item: Fields) -> None:
        self._words_at = self._words_at if self._words else self._at
        self._words.append(item)

    def _message(self, kind: str, payload: Fields) -> Iterator[Step]:
        match kind:
            case "task_started" | "turn_started":
                yield from self._end("complete")
                self._tasks, self._task = True, str(payload.get("turn_id") or "")
            case "token_count":
                yield from self._used(payload.get("info"))
            case "task_complete" | "turn_complete":
                if not self._open and self._task and any("usage" in event for event in self._later):
                    yield from self._start(self._task)  # a compaction that the user asked for is a task of its own
                    yield from self._send_later()
                yield from self._end("complete")
            case "turn_aborted":
                yield from self._end("aborted")
            case "thread_rolled_back":
                yield from self._end("complete")
                del self._runs[max(0, len(self._runs) - int(payload["num_turns"])) :]
            case _ if kind not in REPEATS and not kind.endswith(("_begin", "_delta")):
                yield from self._beside(kind, payload)

    def _begin(self, item: Fields) -> Iterator[Step]:
        yield from self._end("complete")
        text = "\n".join(texts(item.get("content")))
        yield from self._start(
            self._task or f"{self._count}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        )

    def _start(self, run: str) -> Iterator[Step]:
        self._count, self._task = self._count + 1, None
        session, parent = str(self._meta.get("id") or self._name), _parent(self._meta)
        if self._thread is None:
            origin = None if parent else self._homes.thread(run) or self._meta.get("forked_from_id")
            self._thread = str(origin or session)
        self._copied = not self._homes.claim(run, self._file, self._thread)
        self._open, self._asked, self._writing = True, False, False
        info: Fields = {"imported": True, "agent_name": "Codex", "thread": self._facts(session)}
        info["provider_name"] = str(self._meta.get("model_provider") or "openai")
        info |= filled({"parent_thread_id": parent, "continues": self._runs[-1] if self._runs else None})
        self._runs.append(run)
        if not self._copied:
            yield RunOpened(MAIN, self._thread, run, "codex", info)

    def _facts(self, session: str) -> Fields:
        meta, git = self._meta, self._meta.get("git")
        known = {name: meta[key] for key, name in NAMES.items() if isinstance(meta.get(key), str)}
        if isinstance(git, dict) and isinstance(git.get("branch"), str):
            known["git_branch"] = git["branch"]
        return {"metadata": known, **present({"title": self._titles.get(session)})}

    def _ask(self) -> Iterator[Step]:
        """Yield a request with all items since the last one; its other fields only if they changed."""
        yield from self._complete(None)
        body = {"model": self._settings.get("model"), "instructions": _instructions(self._meta)}
        body = filled({**body, "turn_context": self._settings, "context": list(self._context)})
        if self._asked and body == self._body:
            body = {}
        self._body, body = body or self._body, body | {"input": self._words}
        self._asked, self._words, self._items = True, [], 0
        yield from self._emit({"type": REQUEST, "request": body}, self._words_at)
        yield from self._send_later()
        self._writing = True

    def _send_later(self) -> Iterator[Step]:
        later, self._later = self._later, []
        for event in later:
            yield from self._emit(event)

    def _used(self, info: Any) -> Iterator[Step]:
        """Count tokens once: each note of rate limits repeats the same counts."""
        total = object_of(info).get("total_token_usage")
        if not isinstance(total, dict) or total == self._total:
            return
        last = info.get("last_token_usage")
        known = {key: count - self._total.get(key, 0) for key, count in total.items() if isinstance(count, int)}
        self._total = total
        yield from self._complete(last if isinstance(last, dict) else known)

    def _complete(self, usage: Fields | None) -> Iterator[Step]:
        if not self._writing:
            return
        self._writing = False
        answer = filled({"model": self._settings.get("model"), "usage": _counts(usage or {})})
        yield from self._emit({"type": "response.completed", "response": answer})

    def _end(self, end: str) -> Iterator[Step]:
        if not self._open:
            return
        if end == "complete":
            yield from self._complete(None)
        if self._words:
            yield from self._ask()
        self._open = self._writing = False
        if not self._copied:
            yield RunOver(MAIN, end)

    def _beside(self, kind: str, payload: Fields) -> Iterator[Step]:
        event = {"type": f"codex.{kind}", **{key: value for key, value in payload.items() if key != "type"}}
        if self._open and self._asked:
            yield from self._emit(event)
        else:
            self._later = [*self._later, event][-MAX_HELD_LINES:]

    def _emit(self, event: Fields, at: int | None = None) -> Iterator[Step]:
        if not self._copied:
            yield RunEvent(MAIN, event, self._at if at is None else at, event["type"] == "response.completed")


def _counts(usage: Fields) -> Fields:
    """Return Codex's counts as the Responses API spells them."""
    counts: Fields = {key: count for key, count in usage.items() if key not in DETAILS}
    for key, (group, name) in DETAILS.items():
        if key in usage:
            counts.setdefault(group, {})[name] = usage[key]
    return counts


def _is_context(item: Fields) -> bool:
    pieces = texts(item.get("content"))
    return bool(pieces) and all(CONTEXT.match(text) for text in pieces)


def _instructions(meta: Fields) -> Any:
    base = meta.get("base_instructions")
    return base.get("text") if isinstance(base, dict) else meta.get("instructions")


def _parent(meta: Fields) -> str | None:
    """Return the session that spawned this one as a sub-agent."""
    match meta.get("source"):
        case {"subagent": {"thread_spawn": {"parent_thread_id": str(name)}}}:
            return name
    return None
