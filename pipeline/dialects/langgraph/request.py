"""The body of a run (`run.request`), as LangGraph's platform takes it, and where the run begins.

{"input": {"messages": [...]}, "command": …, "checkpoint": …}
"""

from __future__ import annotations

from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.dialects.langgraph.checkpoints import identity
from pipeline.dialects.langgraph.shapes import message_of
from pipeline.dialects.langgraph.stream import Stream
from pipeline.dialects.langgraph.turn import prompt_part
from pipeline.turns.lineage import History
from topics.json_text import Fields


def begin(builder: Builder) -> None:
    """Begin the run with the user's last messages of the input; a body of another shape has none."""
    builder.scratch["stream"] = Stream()
    messages = _messages(builder.context.request)
    spoken = [n for n, message in enumerate(messages) if message["type"] in ("ai", "tool")]
    asked = messages[spoken[-1] + 1 :] if spoken else messages
    prompts = [prompt_part(message) for message in asked if message["type"] == "human"]
    if prompts:
        builder.user_turn(prompts)


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats, and the checkpoint from which the graph continues."""
    fields = body if isinstance(body, dict) else {}
    named = (identity(fields.get("checkpoint")), identity(fields.get("config")), identity(fields))
    return History(_messages(body), checkpoint=next(filter(None, named), None))


def history(builder: Builder, stream: Stream) -> History | None:
    """Return the same from the stream: from the state before the run, and the ids of its checkpoints."""
    base = [] if builder.lossy else stream.base
    if not base and not stream.checkpoints and stream.checkpoint is None:
        return None
    asked = repeated(builder.context.request)
    messages = base or asked.messages
    return asked._replace(
        messages=messages, checkpoint=asked.checkpoint or stream.checkpoint, checkpoints=tuple(stream.checkpoints)
    )


def _messages(body: Any) -> list[Fields]:
    given = body.get("input", body) if isinstance(body, dict) else body
    given = given.get("messages") if isinstance(given, dict) else given
    given = [given] if isinstance(given, dict | str) else given
    raws = [
        {"role": "user", "content": raw} if isinstance(raw, str) else raw
        for raw in (given if isinstance(given, list) else ())
    ]
    return [message for message in map(message_of, raws) if message is not None]
