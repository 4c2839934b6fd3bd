"""What the wire `claude-code` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "prompts": "from `run.request`, or with `--replay-user-messages`; without either, later ones are not there",
    "tokens of each response, without partial messages": "the sum of `result.usage` stands at the run's last response",
    "tokens of sub-agents, titles, compaction": "not in the main turn; `modelUsage` in `custom:claude-code.result`",
    "output tokens of sub-agents": "not there: their lines have input tokens only",
    "what sub-agents say": "only their calls, without `--forward-subagent-text`",
    "input of a call that a permission or a hook changed": "in `custom:claude-code.control_response`, where it came",
    "integers beyond 2^53 in arguments": "as the lines have them, which JavaScript has read",
    "text of a message that comes, in live views": "shown when its block is whole",
    "blocks of a message that broke off, and was asked again": "those with a line stay, as the SDK has them",
    "`is_error` in a result of subtype `success`": "the run is interrupted: it ended with an error of the API",
    "results of web searches and other server tools": "`custom:TYPE` parts: the Agent SDK's messages don't have them",
    "lines as Python's Agent SDK hands them out": "without flags of user lines: a note of the program's is a prompt",
    "prompts to one process": "one run: a turn with several results; publish a run for each prompt to part them",
    "times": "of receipt",
}

CLAUDE_CODE: Final = (
    Loss("provider", "`anthropic`, or from the publisher's `run`", drop.response_fields("provider_name")),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)

CARRIERS: Final = (Carrier("claude-code", CLAUDE_CODE),)
