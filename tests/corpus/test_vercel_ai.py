"""Recorded UI message streams against what the AI SDK's own reader makes of them."""

import json
from pathlib import Path

import pytest

from pipeline.dialects import DIALECTS
from tests.corpus.compare_ui import beside, full, holds, steps
from tests.support.assembled import assembled
from topics.thread_rules import check
from turnmill.wire.framing import decode

STREAMS = sorted((Path(__file__).parent / "vercel-ai").glob("*.sse"))
UNFINISHED = ("error", "interrupted")
# Where the SDK's reader loses what we keep: a result before its call or before a late preliminary one, data before
# `start`.
KEPT = {
    "hostile-tool-output-before-available",
    "hostile-tool-preliminary-after-final",
    "v5-sys-usage-data-parts",
    "v6-sys-usage-data-parts",
    "v7-sys-usage-data-parts",
}


def load(path):
    return json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_a_stream_is_what_the_sdk_makes_of_it(path):
    meta, truth = (load(path.with_name(f"{path.stem}.{kind}.json")) for kind in ("meta", "uimessage"))
    initial = path.with_name(f"{path.stem}.initial.json")
    run = {"request": {"messages": [load(initial)]}} if initial.exists() else {}
    events = [item.event for item in decode(path.read_bytes(), DIALECTS["vercel-ai"].wire) if item.event is not None]
    got = assembled("vercel-ai", events, run=run, ts=0)
    messages, truth = got.export("vercel-ai"), [truth]

    finishes = [event.get("finishReason") for event in events if event.get("type") == "finish"]
    complete = bool(finishes) and finishes[-1] not in UNFINISHED
    assert got.agent_turns[-1]["completion_status"] == ("complete" if complete else "interrupted")
    # The call that a continued message answers is in the thread's earlier turn.
    assert not [f for f in check(got.document) if f.severity == "error" and not (run and f.rule == 2)]

    rejected = bool(meta["errors"]) or path.stem in KEPT
    if rejected:
        assert holds(messages, truth)
    elif complete and not run:
        assert steps(messages) == steps(truth)
        assert beside(messages) == beside(truth)
        assert full(messages) == full(truth)
    else:
        assert holds(truth, messages)
