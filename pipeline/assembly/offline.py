"""Assembles a run's whole stream without a broker: for `turnmill assemble`, and as the reference of tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.finish import finish
from pipeline.assembly.fork import fork
from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.run import Run
from pipeline.turns.lineage import Redacted, lineage
from topics.turn_record import TurnRecord
from turnmill.wire.nesting import with_room


def assemble(
    dialect: Dialect, envelopes: Sequence[dict[str, Any]], *, keep_telemetry: bool = False, keep_requests: bool = False
) -> tuple[list[TurnRecord], list[Refused]]:
    """Return the turn records of a run's envelopes, given in any order, and what was refused.

    Without an `end` and a terminal event, the run counts as disconnected.
    """
    run: Run | None = None
    for offset, envelope in enumerate(envelopes):
        record = StoredRecord(b"", offset, envelope["ts"])
        run = run or Run(envelope, dialect, record)
        run.feed(envelope, record)
    if run is None:
        return [], []
    return close(run, run.verdict(), keep_telemetry=keep_telemetry, keep_requests=keep_requests)[0], run.refusals


def close(
    run: Run,
    end: str,
    *,
    keep_telemetry: bool = False,
    keep_requests: bool = False,
    last: bool = False,
    redacted: Redacted = str,
) -> tuple[list[TurnRecord], Builder]:
    """Return the turns of a run as it stands, and the builder that made them.

    The run can go on, unless it ended as complete, or `last` is set: a copy of a large run would fill the memory.
    `redacted`: a function from a text to its stored form.
    """
    if not (last or (end == "complete" and not run.early)):
        builder = with_room(partial(fork, run.builder))
    else:
        builder = run.builder
    if run.early:
        run.past_the_holes(builder)
        end = "events_lost"
    run.dialect.finish(builder, end)
    missing = run.missing()
    turns = finish(
        builder,
        end,
        events=run.count(missing),
        missing=missing,
        revision=run.revision,
        keep_telemetry=keep_telemetry,
        keep_requests=keep_requests,
    )
    context = builder.context
    sources = (builder.history, context.request, context.continues, context.replaces)
    if any(source is not None for source in sources):
        history = builder.history or run.dialect.history(context.request)
        linked = lineage(history, context.continues, context.replaces, redacted)
        if linked:
            turns[0]["lineage"] = linked
    return turns, builder
