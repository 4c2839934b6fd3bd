"""The records of the events topic as a strict model, for their schema and for messages about all faults of a record.

`turnmill.wire.envelope` describes the record, and contains the codec that publishers and workers use.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from turnmill.errors import InvalidRecord, expectation
from turnmill.limits import NAMED_CHARACTERS, TENANT_CHARACTERS
from turnmill.publish.run_info import RunInfo
from turnmill.wire.envelope import MAX_INTEGER, integer, loads
from turnmill.wire.registry import WIRES

Integer = Annotated[int, BeforeValidator(integer)]
Number = Annotated[int, Field(ge=0, le=MAX_INTEGER), BeforeValidator(integer)]
Named = Annotated[str, StringConstraints(min_length=1, max_length=NAMED_CHARACTERS)]


class AgentEvent(BaseModel):
    """The envelope, strictly."""

    model_config = ConfigDict(extra="allow", frozen=True)

    v: Annotated[Literal[1], BeforeValidator(lambda value: None if value is True else integer(value))]  # True == 1
    thread_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]
    run_id: Named
    agent_id: Named
    seq: Number
    ts: Number
    dialect: Annotated[
        str, Field(min_length=1, max_length=NAMED_CHARACTERS, description="Name of a wire.", examples=list(WIRES))
    ]
    events: list[dict[str, Any]]
    dt: Annotated[list[Integer] | None, Field(description="As many as `events`.")] = None
    tenant: Annotated[str, StringConstraints(max_length=TENANT_CHARACTERS)] | None = None
    run: RunInfo | None = None
    end: Literal["complete", "aborted", "error", "disconnected"] | None = None


def explain(data: bytes) -> list[str]:
    """Return the faults of a record's value, a line each; empty for a valid envelope."""
    try:
        AgentEvent.model_validate(loads(data), strict=True)
    except InvalidRecord as error:
        return [str(error)]
    except ValidationError as error:
        return [
            f"{'.'.join(map(str, e['loc'])) or 'record'}: {expectation(e)}" for e in error.errors(include_url=False)
        ]
    return []
