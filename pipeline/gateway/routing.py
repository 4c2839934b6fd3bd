"""What routes share: parameters, headers of answers, and facts that their types don't tell.

Tests that call every route read the facts here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, WithJsonSchema

from pipeline.turns.times import epoch_ms
from turnmill.labels import CHARACTERS, KINDS
from turnmill.limits import NAMED_CHARACTERS

JSON: Final = "application/json"
PRIVATE: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}


def moment(value: object) -> int:
    """Return a time in epoch milliseconds. Raises ValueError."""
    text = str(value)
    at = epoch_ms(int(text) if text.isascii() and text.isdigit() else text)
    if at is None:
        raise ValueError("a time is ISO 8601, or milliseconds since 1970")
    return at


ThreadId = Annotated[
    str,
    Path(min_length=1, max_length=1000, description="The thread's UUID, or the conversation id given by its producer."),
]
Named = Annotated[str, StringConstraints(min_length=1, max_length=NAMED_CHARACTERS)]
Moment = Annotated[
    int,
    BeforeValidator(moment),
    WithJsonSchema({"type": "string", "description": "ISO 8601, or milliseconds since 1970."}),
]
Tenant = Annotated[str | None, Query(max_length=200, description="Only this tenant; for tokens without a tenant.")]
Whose = Annotated[
    str | None,
    Query(
        max_length=200,
        description="The thread's tenant, if several have the id; for tokens without a tenant. Empty: none.",
    ),
]

Threads = Literal["none", "own", "refused", "published", "deleted"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """`threads`: what a token of a tenant gets to see of threads, or does with them; "refused": it is for operators.

    `strangers`: the status for the id of a thread that the caller can't see. `endless`: the answer goes on until the
    caller leaves, or with `follow=false` ends.
    """

    threads: Threads = "none"
    strangers: int = 404
    endless: bool = False


FACTS: Final[dict[Callable[..., Any], RouteFacts]] = {}  # of the endpoints that differ from the defaults


def facts(threads: Threads = "none", *, strangers: int = 404, endless: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Return the decorator that says this of an endpoint. It stands below the route's."""

    def told(endpoint: Endpoint) -> Endpoint:
        FACTS[endpoint] = RouteFacts(threads, strangers, endless)
        return endpoint

    return told


Label = Annotated[str | None, Field(max_length=CHARACTERS, description="Only with a run that has this label.")]


class Labels(BaseModel):
    """The labels by which a query filters."""

    user: Label = None
    environment: Label = None
    project: Label = None
    branch: Label = None
    tag: Label = None

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The labels as (kind, label)."""
        return tuple((kind, label) for kind in KINDS if (label := getattr(self, kind)) is not None)
