"""Recordings in the neutral form of `wires/`: streams, what is known beside them, and what the SDK made of them.

    NAME.sse, NAME.jsonl, NAME.run.json, NAME.expected.json

A truth holds messages ["response" | "request", PARTS] from the first response on; a part is ["text", text],
["tool-call", name, id, args] and so on. Adjacent texts are one, and lists of text blocks read like their text.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.cli.files.assemble import RUN_INFO
from pipeline.dialects import DIALECTS
from pipeline.turns.text import mend
from pipeline.turns.times import epoch_ms
from tests.support.assembled import assembled
from topics.thread_rules import check
from turnmill.wire.framing import decode

FOLDER: Final = Path(__file__).parent / "wires"
TEXTS: Final = ("text", "input_text", "output_text")
ARGS: Final = 3  # their place in a call
OF_EARLIER_RUNS: Final = 2  # the rule that a result's call stands before it

Neutral = list[tuple[str, list[list[Any]]]]


@dataclass(frozen=True, slots=True)
class Recording:
    """One stream and its truth."""

    dialect: str
    stream: Path
    truth: dict[str, Any]

    @property
    def info(self) -> dict[str, Any]:
        """What its publisher knows beside the stream."""
        path = self.stream.with_name(f"{self.stream.name.removesuffix(self.stream.suffix)}.run.json")
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def events(self) -> list[dict[str, Any]]:
        return events(self.dialect, self.stream.read_bytes())

    def assembled(self) -> dict[str, Any]:
        """The thread document."""
        return thread(self.dialect, self.events(), self.info)


def events(dialect: str, stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream; what is none is left out."""
    return [item.event for item in decode(stream, DIALECTS[dialect].wire) if item.event is not None]


def thread(dialect: str, said: list[dict[str, Any]], info: dict[str, Any]) -> dict[str, Any]:
    """The thread document that events of one run make, as `turnmill assemble` does."""
    run = {key: info[key] for key in RUN_INFO if info.get(key) is not None}
    started = epoch_ms(info.get("started_at")) or 0
    return assembled(dialect, said, ts=started, step=0, run=run, end=info.get("end")).document


def recordings(dialect: str) -> list[Recording]:
    """Those of one wire, by name."""
    found = []
    for path in sorted((FOLDER / dialect).glob("*.expected.json")):
        stem = path.name.removesuffix(".expected.json")
        stream = next(
            file for suffix in ("sse", "jsonl", "bin") if (file := path.with_name(f"{stem}.{suffix}")).exists()
        )
        found.append(Recording(dialect, stream, json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))))
    return found


def judge(thread: dict[str, Any], truth: dict[str, Any]) -> None:
    """Assert that the thread is what the SDK made of the stream, or of a run that broke off a part of it."""
    assert not errors(thread)
    turns = [turn for turn in thread["turns"] if turn["turn_type"] == "agent"]
    if truth["complete"] is not None:
        assert (turns[-1]["completion_status"] == "complete") == truth["complete"]
    got = content(turns)
    if truth["content"] is not None:
        assert got == neutral(truth["content"])
        if truth["tokens"]:
            assert tokens(turns) == {key: truth["tokens"].get(key, 0) for key in ("input", "output")}
    elif truth["at_most"] is not None:
        seen = [part for _, parts in neutral(truth["at_most"]) for part in parts]
        rest = iter(seen)
        assert all(part in rest for _, parts in got for part in parts), "what is kept was said, in this order"
        held = "".join(text for turn in turns for text in texts([turn["messages"], turn.get("meta:partial")]))
        assert all(part[1] in held for part in seen if part[0] in ("text", "thinking")), "what was seen is somewhere"


def errors(thread: dict[str, Any]) -> list[Any]:
    """What breaks ThreadProtocol, but results whose calls are in the turns of earlier runs, which are not there."""
    return [finding for finding in check(thread) if finding.severity == "error" and finding.rule != OF_EARLIER_RUNS]


def content(turns: list[dict[str, Any]]) -> Neutral:
    """The agent's turns in the neutral form."""
    messages = [m for turn in turns for m in turn["messages"] if m["message_type"] in ("request", "response")]
    first = next((n for n, message in enumerate(messages) if message["message_type"] == "response"), len(messages))
    return neutral([(m["message_type"], [part for p in m["parts"] if (part := _part(p))]) for m in messages[first:]])


def tokens(turns: list[dict[str, Any]]) -> dict[str, int]:
    """Input and output of all turns."""
    used = [turn.get("total_usage") or {} for turn in turns]
    return {key: sum(usage.get(f"{key}_tokens") or 0 for usage in used) for key in ("input", "output")}


def texts(value: Any) -> Iterator[str]:
    """What text and thinking parts hold, wherever they are."""
    if isinstance(value, dict):
        if value.get("part_kind") in ("text", "thinking"):
            yield value.get("content") or ""
        else:
            yield from texts(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def _part(part: dict[str, Any]) -> list[Any] | None:
    kind = part["part_kind"]
    if kind in ("text", "thinking"):
        return [kind, part["content"]] if part.get("content") else None
    if kind in ("tool-call", "builtin-tool-call"):
        return [kind, part["tool_name"], part["tool_call_id"], part["args"]]
    if kind == "builtin-tool-return":
        return [kind, part["tool_call_id"]]
    if kind == "tool-return":
        return [kind, part["tool_call_id"], part["content"], "success" if part["status"] == "success" else "error"]
    if kind == "user-prompt":
        return [kind, part["content"]]
    if kind == "file":
        held = part["content"] if isinstance(part.get("content"), dict) else part
        return [kind, held.get("media_type") or held.get("content_type")]
    return None


def neutral(messages: Any) -> Neutral:
    """Requests that follow each other are one, adjacent texts are joined, results stand in the order of their ids."""
    found: Neutral = []
    for kind, parts in messages:
        if parts and kind == "request" and found and found[-1][0] == "request":
            found[-1][1].extend(parts)
        elif parts:
            found.append((kind, list(parts)))
    return [(kind, _settled(parts)) for kind, parts in found]


def _settled(parts: list[list[Any]]) -> list[list[Any]]:
    joined: list[list[Any]] = []
    for part in parts:
        read = [_plain(_tidy(value)) for value in part]
        if read[0] in ("tool-call", "builtin-tool-call"):
            read[ARGS] = _arguments(read[ARGS])
        if read[0] == "text" and joined and joined[-1][0] == "text":
            joined[-1][1] += read[1]
        else:
            joined.append(read)
    results = iter(sorted((part for part in joined if part[0] == "tool-return"), key=lambda part: str(part[1])))
    return [next(results) if part[0] == "tool-return" else part for part in joined]


def _plain(value: Any) -> Any:
    blocks = isinstance(value, list) and value and all(isinstance(b, dict) and b.get("type") in TEXTS for b in value)
    return "".join(block["text"] for block in value) if blocks else value


def _tidy(value: Any) -> Any:
    if isinstance(value, str):
        return mend(value)  # no turn holds half of a surrogate pair
    if isinstance(value, dict):
        tidied = {key: _tidy(item) for key, item in value.items()}
        return {key: item for key, item in tidied.items() if item not in (None, {}, [])}
    return [_tidy(item) for item in value] if isinstance(value, list) else value


def _arguments(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"INVALID_JSON"}:
        try:
            inner = json.loads(value["INVALID_JSON"])
        except (TypeError, ValueError):
            return value
        value = value if isinstance(inner, dict) else _tidy(inner)
    if isinstance(value, dict):
        return value
    return {"INVALID_JSON": value if isinstance(value, str) else json.dumps(value)}
