"""Formats a ThreadProtocol document for a terminal. Pure.

All content is printed as plain text: Rich markup and escape sequences in it have no effect.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from pipeline.cli.output import many
from pipeline.stores.threads.summaries import ThreadSummary
from pipeline.turns.asides import PURPOSE
from pipeline.turns.branches import BRANCH, VERSION
from pipeline.turns.partial_turns import PARTIAL
from pipeline.turns.times import epoch_ms, iso, passed
from topics import json_text
from topics.part_kinds import ANSWERS

CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
INDENT: Final = 4  # columns, for a run that another run started
MAX_INDENTED: Final = 8  # beyond that, runs are indented no further
MAX_VALUE_CHARACTERS: Final = 2000  # of a tool's arguments or result
COUNTS: Final = (
    ("input_tokens", "in"),
    ("output_tokens", "out"),
    ("thinking_tokens", "thinking"),
    ("cache_read_tokens", "cache read"),
    ("cache_write_tokens", "cache write"),
    ("total_tokens", "total"),
)

Fields = Mapping[str, Any]


def view(document: Fields, children: Sequence[ThreadSummary] = ()) -> Iterator[RenderableType]:
    """Yield the whole thread, piece by piece; `children` are the threads that it spawned."""
    agents: Fields = document["agents"]
    yield Text(plain(document.get("title") or "Thread"), style="bold") + Text(f"  {document['thread_id']}", style="dim")
    metadata = document.get("metadata") or {}
    about = [
        many(len(document["turns"]), "turn"),
        f"{short_time(document['created_at'])} – {short_time(document['updated_at'])}",
        *([f"external id {plain(metadata['meta:external_id'])}"] if "meta:external_id" in metadata else []),
        *([f"ended {short_time(metadata['meta:ended_at'])}"] if "meta:ended_at" in metadata else []),
    ]
    yield Text(" · ".join(about), style="dim")
    for link in (document.get("relationships") or {}).get("links", ()):
        yield Text(f"{plain(link.get('relation'))} {plain(link.get('thread_id'))}", style="dim")
    for child in children:
        about = [plain(", ".join(child.agents)), many(child.turns, "turn"), plain(child.title or "")]
        yield Text(f"└ thread {child.thread_id}  {' · '.join(filter(None, about))}", style="dim")
    run = None
    for depth, turn in nested(document["turns"]):
        mark = turn.get(BRANCH) or {}
        if (version := mark.get(VERSION)) and mark["run"] != run:  # only the first turn of a run is marked
            yield Text(f"\nversion {version['number']} of {version['of']}", style="magenta")
        run = mark.get("run")
        for piece in _user_turn(turn) if turn.get("turn_type") == "user" else _agent_turn(turn, agents):
            yield Padding(piece, (0, 0, 0, INDENT * min(depth, MAX_INDENTED))) if depth else piece


def nested(turns: Sequence[Fields]) -> Iterator[tuple[int, Fields]]:
    """Yield (depth, turn) of each turn; those of a child run follow those of the run that started it."""
    runs: dict[str, list[Fields]] = {}
    for number, turn in enumerate(turns):
        runs.setdefault(str(turn.get("meta:run_id", f"turn {number}")), []).append(turn)
    started: dict[str | None, list[str]] = {}
    for run_id, run_turns in runs.items():
        parent = (run_turns[0].get("meta:parent") or {}).get("run_id")
        started.setdefault(parent if parent in runs else None, []).append(run_id)
    shown: set[str] = set()
    # `*runs` comes last, for the runs whose parents form a cycle.
    todo = [(run_id, 0) for run_id in reversed([*started.get(None, ()), *runs])]
    while todo:
        run_id, depth = todo.pop()
        if run_id not in shown:
            shown.add(run_id)
            yield from ((depth, turn) for turn in runs[run_id])
            todo += [(child, depth + 1) for child in reversed(started.get(run_id, ()))]


def _user_turn(turn: Fields) -> Iterator[RenderableType]:
    yield _heading("user", "cyan", [short_time(turn.get("submitted_at"))])
    for part in turn.get("parts") or ():
        yield from _part(part)


def _agent_turn(turn: Fields, agents: Fields) -> Iterator[RenderableType]:
    name = (agents.get(turn["agent_id"]) or {}).get("agent_name") or turn["agent_id"]
    took = passed(epoch_ms(turn.get("started_at")), epoch_ms(turn.get("completed_at")))
    facts = [short_time(turn.get("started_at"))]
    if took is not None:
        facts.append(f"{took / 1000:.1f} s")
    yield _heading(plain(name), "green", [*facts, usage_line(turn.get("total_usage"))])
    for message in turn.get("messages") or ():
        yield from _message(message)
    if turn.get("completion_status") == "interrupted":
        interruption = turn.get("interruption") or {}
        why = [plain(interruption[key]) for key in ("reason", "detail") if interruption.get(key)]
        yield Text(f"■ interrupted: {', '.join(why) or 'no reason given'}", style="bold red")


def _heading(name: str, style: str, facts: Iterable[str]) -> RenderableType:
    title = Text(name, style=f"bold {style}") + Text("  " + " · ".join(filter(None, facts)), style="dim")
    return Padding(Rule(title, align="left", style="dim"), (1, 0, 0, 0))


def _message(message: Fields) -> Iterator[RenderableType]:
    if message.get("message_type") == "system":
        data = value_text(message.get("event_data"))
        yield _indented(Text(f"◇ {plain(message.get('event_type'))} {data}", style="magenta"))
        return
    if message.get(PARTIAL) is True:
        yield _indented(Text("◌ not finished:", style="red"))
    for part in message.get("parts") or ():
        yield from _part(part)
    if message.get("message_type") == "response":
        facts = [
            message.get(PURPOSE),
            message.get("model_name"),
            message.get("finish_reason"),
            usage_line(message.get("usage")),
        ]
        line = " · ".join(plain(fact) for fact in facts if fact)
        if line:
            yield _indented(Text(line, style="dim"))


def _part(part: Fields) -> Iterator[RenderableType]:
    kind, name = part.get("part_kind"), plain(part.get("tool_name"))
    if kind in ("text", "user-prompt"):
        contents = part.get("content")
        for content in contents if isinstance(contents, list) else [contents]:
            yield _indented(Text(plain(content) if isinstance(content, str) else value_text(content)))
    elif kind == "thinking":
        yield _indented(Text(plain(part.get("content") or "(hidden thinking)"), style="dim italic"))
    elif kind == "tool-call":
        yield _indented(Text(f"→ {name} ", style="yellow") + Text(value_text(part.get("args"))))
    elif kind in ANSWERS:
        failed = kind == "retry-prompt" or part.get("status", "success") != "success"
        content = part["content"] if "content" in part else part.get("content_ref")
        label = f"← {name} {plain(part.get('status') or 'retry') if failed else ''}".rstrip() + " "
        yield _indented(Text(label, style="red" if failed else "yellow") + Text(value_text(content)))
    else:
        rest = {key: value for key, value in part.items() if key != "part_kind"}
        yield _indented(Text(f"▪ {plain(kind)} ", style="blue") + Text(value_text(rest)))


def _indented(text: Text) -> RenderableType:
    return Padding(text, (0, 0, 0, 2), expand=False)


def usage_line(usage: Any) -> str:
    """Return '50 in, 20 out, 70 total' for {"input_tokens": 50, …}."""
    if not isinstance(usage, dict):
        return ""
    return ", ".join(f"{usage[key]:,} {word}" for key, word in COUNTS if isinstance(usage.get(key), int))


def value_text(value: Any) -> str:
    """Return a JSON value on one line, or a string unchanged; cut after MAX_VALUE_CHARACTERS."""
    text = plain(value if isinstance(value, str) else json_text.dumps(value))
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}… ({len(text):,} characters)"


def plain(value: Any) -> str:
    """Return text without control characters, except line ends."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value).replace("\r\n", "\n"))


def short_time(value: Any) -> str:
    """Return ISO 8601 text or epoch ms as '2026-01-20 16:59:02', UTC."""
    at = epoch_ms(value)
    return "" if at is None else iso(at)[:19].replace("T", " ")
