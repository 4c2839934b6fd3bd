"""The body of a run (`run.request`), as LangGraph's platform takes it, and where the run begins.

{"input": {"messages": [...]}, "command": …, "checkpoint": …}

Where a run begins and ends is shown by checkpoints, the states of a graph's thread. Only ids of the root's checkpoints
are read: the states themselves contain everything that a graph keeps, and `debug` the headers of a request.
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.dialects.langgraph.shapes import message_of
from pipeline.dialects.langgraph.stream import TASK, Stream, ids_of, made_by_program
from pipeline.dialects.langgraph.turn import notification, prompt_part
from pipeline.dialects.wire_values import text_or_none
from pipeline.turns.lineage import History
from topics.json_text import Fields, list_of, object_of

PARENTS: Final = ("parent_config", "parentConfig", "parent_checkpoint")
FIRST: Final = ("input", "fork")  # sources of the first checkpoint that a run writes


def record_checkpoint(stream: Stream, data: Any) -> None:
    """Record a checkpoint.

    It is `{config, parent_config, metadata}` of LangGraph, of its platform `{checkpoint, parent_checkpoint, metadata}`,
    of protocol v3 `{id, parent_id, source}`.

    If the first one of a run is that of its input, or of a fork, the run began at its parent. Otherwise the run began
    at this one: a run that continues an interrupted one reports that one's checkpoint again.
    """
    if not isinstance(data, dict):
        return
    named = (identity(data.get("config")), identity(data.get("checkpoint")), text_or_none(data.get("id")))
    checkpoint = next(filter(None, named), None)
    metadata = data.get("metadata")
    source = metadata.get("source") if isinstance(metadata, dict) else data.get("source")
    if checkpoint is None:
        return
    if not stream.checkpoints and source not in FIRST and stream.checkpoint in (None, checkpoint):
        stream.checkpoint = checkpoint
        return
    if not stream.checkpoints and stream.checkpoint is None:
        parents = (identity(data.get(key)) for key in PARENTS)
        stream.checkpoint = next(filter(None, parents), None) or text_or_none(data.get("parent_id")) or None
    stream.checkpoints[checkpoint] = None


def record_start(stream: Stream, metadata: Fields) -> None:
    """Record where the run began, from the metadata of messages of the root's tasks."""
    task = metadata.get(TASK)
    if stream.checkpoint is None and not (isinstance(task, str) and "|" in task):
        stream.checkpoint = text_or_none(metadata.get("checkpoint_id")) or None


def identity(config: Any) -> str | None:
    """Return the id of a checkpoint of the root, from a config or from the platform's form of one."""
    given = config.get("configurable", config) if isinstance(config, dict) else None
    if not isinstance(given, dict) or given.get("checkpoint_ns"):
        return None
    return text_or_none(given.get("checkpoint_id")) or None


def begin(builder: Builder) -> None:
    """Begin the run with the user's last messages of the input; a body of another shape has none."""
    messages = _messages(builder.context.request)
    spoken = [n for n, message in enumerate(messages) if message["type"] in ("ai", "tool")]
    asked = messages[spoken[-1] + 1 :] if spoken else messages
    humans = [message for message in asked if message["type"] == "human" and not made_by_program(message)]
    words = [message.get("content") for message in humans]
    stream = Stream(asked=words, earlier=ids_of(messages[: len(messages) - len(asked)]))
    stream.beside += [notification(message, builder.at) for message in asked if made_by_program(message)]
    builder.scratch["stream"] = stream
    prompts = [prompt_part(message) for message in humans]
    if prompts:
        builder.user_turn(prompts)


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats, and the checkpoint from which the graph continues."""
    fields = object_of(body)
    named = (identity(fields.get("checkpoint")), identity(fields.get("config")), identity(fields))
    return History(_messages(body), checkpoint=next(filter(None, named), None))


def history(builder: Builder, stream: Stream) -> History | None:
    """Return the same from the stream: from the state before the run, and the ids of its checkpoints."""
    base = [] if builder.lossy else stream.base
    if not base and not stream.checkpoints and stream.checkpoint is None:
        return None
    asked = repeated(builder.context.request)
    checkpoint, checkpoints = asked.checkpoint or stream.checkpoint, tuple(stream.checkpoints)
    return asked._replace(messages=base or asked.messages, checkpoint=checkpoint, checkpoints=checkpoints)


def _messages(body: Any) -> list[Fields]:
    given = body.get("input", body) if isinstance(body, dict) else body
    given = given.get("messages") if isinstance(given, dict) else given
    given = [given] if isinstance(given, dict | str) else given
    raws = list_of(given)
    messages = (message_of({"role": "user", "content": raw} if isinstance(raw, str) else raw) for raw in raws)
    return [message for message in messages if message is not None]
