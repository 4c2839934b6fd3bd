"""What the wire `ag-ui` can't carry, for the hash that it has in common with others."""

from __future__ import annotations

from typing import Final

from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss

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
