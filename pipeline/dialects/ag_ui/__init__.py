"""AG-UI, the protocol between agents and the interfaces of their users, and its messages."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.ag_ui import events, export, history, live, messages
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

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

DIALECT: Final = Dialect(
    name="ag-ui",
    wire=WIRES["ag-ui"],
    handlers=events.HANDLERS,
    unknown=events.unknown,
    begin=messages.begin,
    history=messages.repeated,
    finish=events.finish,
    stretches=events.STRETCHES,
    deltas=events.DELTAS,
    conversation=live.conversation,
    shows=live.shows,
    ended=live.ended,
    carriers=(Carrier("ag-ui", AG_UI),),
    formats=(Format("ag-ui", export.messages, history.READER),),
    resume=live.RESUME,
)
