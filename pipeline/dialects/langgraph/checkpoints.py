"""Checkpoints: the states of a graph's thread, which show where a run begins and ends.

Only ids of the root's checkpoints are read: the states themselves contain everything that a graph keeps, and `debug`
the headers of a request.
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.dialects.langgraph.stream import TASK, Stream
from topics.json_text import Fields

PARENTS: Final = ("parent_config", "parentConfig", "parent_checkpoint")
FIRST: Final = ("input", "fork")  # sources of the first checkpoint that a run writes


def record(stream: Stream, data: Any) -> None:
    """Record a checkpoint.

    It is `{config, parent_config, metadata}` of LangGraph, of its platform `{checkpoint, parent_checkpoint, metadata}`,
    of protocol v3 `{id, parent_id, source}`.

    If the first one of a run is that of its input, or of a fork, the run began at its parent. Otherwise the run began
    at this one: a run that continues an interrupted one reports that one's checkpoint again.
    """
    if not isinstance(data, dict):
        return
    checkpoint = identity(data.get("config")) or identity(data.get("checkpoint")) or _text_or_none(data.get("id"))
    metadata = data.get("metadata")
    source = metadata.get("source") if isinstance(metadata, dict) else data.get("source")
    if checkpoint is None:
        return
    if not stream.checkpoints and source not in FIRST and stream.checkpoint in (None, checkpoint):
        stream.checkpoint = checkpoint
        return
    if not stream.checkpoints and stream.checkpoint is None:
        parents = (identity(data.get(key)) for key in PARENTS)
        stream.checkpoint = next(filter(None, parents), None) or _text_or_none(data.get("parent_id"))
    stream.checkpoints[checkpoint] = None


def began(stream: Stream, metadata: Fields) -> None:
    """Record where the run began, from the metadata of messages of the root's tasks."""
    task = metadata.get(TASK)
    if stream.checkpoint is None and not (isinstance(task, str) and "|" in task):
        stream.checkpoint = _text_or_none(metadata.get("checkpoint_id"))


def identity(config: Any) -> str | None:
    """Return the id of a checkpoint of the root, from a config or from the platform's form of one."""
    given = config.get("configurable", config) if isinstance(config, dict) else None
    return (
        _text_or_none(given.get("checkpoint_id"))
        if isinstance(given, dict) and not given.get("checkpoint_ns")
        else None
    )


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
