"""Checkpoints: the states of a graph's thread, by which a run names its beginning and its end.

Only the root's ids are looked at: the states themselves have all that a graph keeps, and `debug` the headers of a
request.
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.dialects.langgraph.stream import TASK, Stream
from topics.json_text import Fields

PARENTS: Final = ("parent_config", "parentConfig", "parent_checkpoint")
FIRST: Final = ("input", "fork")  # sources of the first checkpoint that a run writes


def told(stream: Stream, data: Any) -> None:
    """Take a checkpoint.

    It is `{config, parent_config, metadata}` of LangGraph, of its platform `{checkpoint, parent_checkpoint, metadata}`,
    of protocol v3 `{id, parent_id, source}`.

    The first one of a run is that of its input, or of a fork, and what it goes back to is where the run began. Any
    other is where it began itself: a run that goes on with what another one waits for reports it once more.
    """
    if not isinstance(data, dict):
        return
    own = identity(data.get("config")) or identity(data.get("checkpoint")) or _text(data.get("id"))
    metadata = data.get("metadata")
    source = metadata.get("source") if isinstance(metadata, dict) else data.get("source")
    if own is None:
        return
    if not stream.checkpoints and source not in FIRST and stream.checkpoint in (None, own):
        stream.checkpoint = own
        return
    if not stream.checkpoints and stream.checkpoint is None:
        parents = (identity(data.get(key)) for key in PARENTS)
        stream.checkpoint = next(filter(None, parents), None) or _text(data.get("parent_id"))
    stream.checkpoints[own] = None


def began(stream: Stream, metadata: Fields) -> None:
    """Note where the run was told to begin: in the metadata of messages of the root's own tasks."""
    task = metadata.get(TASK)
    if stream.checkpoint is None and not (isinstance(task, str) and "|" in task):
        stream.checkpoint = _text(metadata.get("checkpoint_id"))


def identity(config: Any) -> str | None:
    """Return the id of a checkpoint of the root in a config, or in the platform's form of one."""
    given = config.get("configurable", config) if isinstance(config, dict) else None
    return _text(given.get("checkpoint_id")) if isinstance(given, dict) and not given.get("checkpoint_ns") else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
