"""Thread document -> a trajectory in the Agent Trajectory Interchange Format (`atif`, 1.8). Pure.

A user's prompt, each response and each change of the system prompt are steps. Results are observations of the step with
their call, and a system prompt comes before the prompts with which it was sent. Of a forked thread, the newest branch.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline.dialects.exports import spoken
from pipeline.dialects.training import asked_in, provenance, system_prompts, tools_of
from pipeline.dialects.wire_values import text_or_dumped, text_or_none
from pipeline.turns.branches import one_branch
from pipeline.turns.tokens import NANO, counts
from topics.json_text import Fields, filled, present
from topics.part_kinds import CALLS, RESULTS

VERSION: Final = "ATIF-v1.8"
IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
METRICS: Final = {  # ATIF's name -> ThreadProtocol's
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "cache_read_tokens",
}


def atif(document: Fields, bodies: Mapping[str, Fields]) -> Iterator[Fields]:
    """Yield the trajectory of a thread. `bodies`: requests to models, by hash."""
    turns = one_branch(document)["turns"]
    steps: list[Fields] = []
    asked: Fields = {}
    for turn in turns:
        now = asked_in(turn, bodies)
        if (prompts := system_prompts(now)) and prompts != system_prompts(asked):
            last = next((n for n in range(len(steps), 0, -1) if steps[n - 1]["source"] != "user"), 0)
            steps.insert(last, {"source": "system", "message": "\n\n".join(prompts), "extra": _extra(turn)})
        asked = now or asked
        steps += _steps(turn)
    places = [provenance(document, turn) for turn in turns]
    yield {
        "schema_version": VERSION,
        "session_id": document["thread_id"],
        "trajectory_id": document["thread_id"],
        "agent": _agent(document, turns, asked),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "extra": {"turns": [{"turn_id": origin["turn_id"], "hash": origin["hash"]} for origin in places]},
    }


def _agent(document: Fields, turns: list[Fields], asked: Fields) -> Fields:
    """Return the agent of the first agent turn; threads do not contain its version."""
    first = next((turn.get("agent_id") for turn in turns if turn.get("turn_type") == "agent"), None)
    known = (document.get("agents") or {}).get(first, {})
    agent = {"name": str(known.get("agent_name") or "agent"), "version": "unknown"}
    model = text_or_none(known.get("model_name"))
    return agent | present({"model_name": model}) | filled({"tool_definitions": tools_of(asked)})


def _steps(turn: Fields) -> Iterator[Fields]:
    """Yield the steps of a turn; each response with the results up to the next one."""
    step: Fields | None = None
    for kind, message in spoken(turn):
        parts = message.get("parts") or []
        if kind == "answered":
            if step is not None:
                yield step
            step = _step_of_response(message, turn)
        results = [part for part in parts if part.get("part_kind") in RESULTS]
        if step is not None and results:
            calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
            observed = step.setdefault("observation", {"results": []})
            observed["results"] += [_result(part, calls) for part in results]
        words = [part for part in parts if part.get("part_kind") in ("user-prompt", "file")] if kind == "asked" else []
        if words:
            if step is not None:
                yield step
                step = None
            at = message.get("submitted_at", message.get("timestamp"))
            yield {"source": "user", "message": _content(words), **_time(at), "extra": _extra(turn)}
    if step is not None:
        yield step


def _step_of_response(message: Fields, turn: Fields) -> Fields:
    parts = message.get("parts") or []
    text, thoughts = (
        "".join(str(part.get("content") or "") for part in parts if part.get("part_kind") == kind)
        for kind in ("text", "thinking")
    )
    step: Fields = {"source": "agent", "message": text, **_time(message.get("timestamp")), "extra": _extra(turn)}
    step |= present({"model_name": text_or_none(message.get("model_name"))})
    calls = [_call(part) for part in parts if part.get("part_kind") in CALLS]
    used = counts(message.get("usage"))
    metrics: Fields = {name: used[key] for name, key in METRICS.items() if key in used}
    if "cost_nano_usd" in used:
        metrics["cost_usd"] = used["cost_nano_usd"] / NANO
    return step | filled({"reasoning_content": thoughts, "tool_calls": calls, "metrics": metrics})


def _call(part: Fields) -> Fields:
    args = part.get("args")
    return {
        "tool_call_id": str(part.get("tool_call_id") or ""),
        "function_name": str(part.get("tool_name") or ""),
        "arguments": args if isinstance(args, dict) else {} if args is None else {"input": args},
    }


def _result(part: Fields, calls: set[str]) -> Fields:
    content, name = part.get("content"), part.get("tool_call_id")
    made: Fields = {"content": text_or_dumped(content)}
    return {"source_call_id": name, **made} if isinstance(name, str) and name in calls else made


def _content(parts: list[Fields]) -> Any:
    """Return a text if the parts are only text, else pieces."""
    pieces: list[Fields] = []
    for part in parts:
        content = part.get("content")
        pieces += map(_content_part, content if isinstance(content, list) else [content])
    if all(piece["type"] == "text" for piece in pieces):
        return "\n\n".join(piece["text"] for piece in pieces)
    return pieces


def _content_part(piece: Any) -> Fields:
    """Return a picture by its address; anything else as text."""
    if isinstance(piece, dict):
        media = str(piece.get("media_type") or "image/png")
        url = piece.get("url") if piece.get("kind") == "image-url" else None
        if piece.get("kind") == "binary" and isinstance(piece.get("data"), str):
            url = f"data:{media};base64,{piece['data']}"
        if isinstance(url, str) and media in IMAGES:
            return {"type": "image", "source": {"media_type": media, "path": url}}
        if isinstance(piece.get("content"), str):
            return {"type": "text", "text": piece["content"]}
    return {"type": "text", "text": text_or_dumped(piece)}


def _time(at: Any) -> Fields:
    return {"timestamp": at} if isinstance(at, str) else {}


def _extra(turn: Fields) -> Fields:
    """Return a step's fields about its turn."""
    interrupted = turn.get("completion_status") == "interrupted"
    return {"turn_id": turn.get("meta:turn_id"), **({"interrupted": True} if interrupted else {})}
