"""What the wire `openai-agents` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "how a run ended, and its exception": "from the publisher's `end`; a failed response has an event",
    "the run's input and history": 'from the run\'s arguments, where the publisher has them (`{"input": …}`)',
    "instructions, tools": "not there",
    "that a tool failed": "a text like any other: the wire has no flag",
    "approvals that a run waits for": "not there: the call is open at the end of a complete run",
    "runs of agents that are tools": "not there, nor their tokens: their last text is the tool's return",
    "outputs that a hand-off's `input_filter` takes away": "not there: the calls stay open",
    "results of guardrails, the typed final output": "not there; structured output is the text of its JSON",
    "a tool's own value": "what the model sees is kept: `raw_item.output`, not `item.output`",
    "run items, where the model's events are there": "they repeat the content: only their agent is read",
    "a response that broke off, and was asked for again": "dropped, without its tokens; seen in `meta:partial`",
    "ids of Chat Completions models (`__fake_id__`)": "left out",
    "the JavaScript SDK's events": "kept as system messages, not read",
}

OPENAI_AGENTS: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name")),
    Loss(
        "whether a call failed",
        "`success`",
        drop.answers(lambda part: {key: value for key, value in part.items() if key != "status"}),
    ),
)

CARRIERS: Final = (Carrier("openai-agents", OPENAI_AGENTS),)
