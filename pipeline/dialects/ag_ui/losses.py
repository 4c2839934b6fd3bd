"""What the wire `ag-ui` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

# What readers of the docs should know.
LOSSES: Final = {
    "where one call of the model ends": "messages and thoughts side by side are one response, up to the next result",
    "the order of text and calls in one message": "text first, as AG-UI's own client has it",
    "why a response ended": "`tool_call` where it has calls, else `stop`",
    "tokens of each response": "RUN_FINISHED has the run's: they are the last response's; before 1.0 there are none",
    "the model": "from the publisher's `run`; from `usage`, where that names one",
    "that a result is an error": "from `error` of snapshots, and from what Pydantic AI says; else success",
    "files of the model, citations": "not there",
    "messages of sub-agents": "in SystemMessage custom:ag-ui.subagent, and in no response",
    "`rawEvent` and RAW": "dropped: they repeat what the events say, in the provider's own words",
    "steps, and times of events": "dropped; the times are those of receipt",
    "what comes behind RUN_FINISHED or RUN_ERROR": "a dead letter, where it is content: AG-UI's client refuses it, too",
    "results of the client's tools": "from the next run's request, in the request that its turn opens with",
}

AG_UI: Final = (
    Loss(
        "model, provider, response id",
        "from the publisher's `run`, where it knows them",
        drop.response_fields("model_name", "provider_name", "provider_response_id"),
    ),
    Loss(
        "why a response ended", "`tool_call` where it has calls, else `stop`", drop.finish_reasons(but_the_last=False)
    ),
    Loss("files of the model", "not there", drop.parts(lambda part: part["part_kind"] == "file")),
    Loss("sources", "not there", drop.events(lambda kind: kind.startswith("source."))),
    Loss("why a call failed", "a text for all", drop.answers(drop.failure)),
    Loss(
        "id, provider and details of texts and thoughts",
        "not there, but in `encryptedValue`",
        drop.part_fields("text", "id", "provider_name", "provider_details"),
    ),
)

CARRIERS: Final = (Carrier("ag-ui", AG_UI),)
