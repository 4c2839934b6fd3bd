"""Who may publish while the broker is away."""

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.gateway.intake.uploads import Outage
from pipeline.gateway.problems import Problem


def publisher(trouble: str | None) -> Any:
    return SimpleNamespace(delivery=SimpleNamespace(trouble=trouble))


def test_one_tenant_leaves_room_in_the_spool_for_another() -> None:
    outage, away = Outage(200), publisher("no broker")
    for _ in range(75):
        outage.take(away, "evil", 1)
    with pytest.raises(Problem, match="as much of this tenant"):
        outage.take(away, "evil", 1)
    outage.take(away, "acme", 20)
    outage.take(away, None, 1_000)  # the operator's own
    outage.take(publisher(None), "acme", 1)
    for _ in range(75):
        outage.take(away, "evil", 1)


def test_while_the_broker_is_there_nothing_is_counted() -> None:
    outage = Outage(10)
    for _ in range(100):
        outage.take(publisher(None), "evil", 1_000_000)
    outage.take(publisher("no broker"), "evil", 4)
