"""Alerts over HTTP: those of the settings, and which of them are on."""

from collections.abc import Iterable

from fastapi import APIRouter
from pydantic import BaseModel, Field

from pipeline.gateway.access.security import Reader
from pipeline.gateway.routing import Tenant
from pipeline.gateway.state import TheGateway
from pipeline.policies.alerts import Alert, On
from pipeline.stores.usage.alerts import alerts_on
from pipeline.turns.times import iso

router = APIRouter(tags=["alerts"])


class AlertThatIsOn(BaseModel):
    """A group that an alert is on for: what the group has in common, and since when the alert is on."""

    of: dict[str, str] = Field(description="Its tenant, agent, model, labels.")
    since: str
    value: float = Field(description="The figure, the last time that a worker looked.")


class ListedAlert(BaseModel):
    """An alert of the settings."""

    name: str
    figure: str
    feedback: str | None = Field(description="The feedback whose mean is the figure.")
    above: float | None
    below: float | None
    within_ms: int = Field(description="Of this time until now.")
    by: str | None = Field(description="The dimension of which each value is looked at by itself.")
    of: dict[str, str] = Field(description="What it is limited to.")
    on: list[AlertThatIsOn] = Field(description="Empty: it is quiet.")


class AlertList(BaseModel):
    """The alerts that the caller may see."""

    alerts: list[ListedAlert]


@router.get("/v1/alerts", summary="Alerts, and which of them are on")
async def list_alerts(gateway: TheGateway, principal: Reader, tenant: Tenant = None) -> AlertList:
    """List the alerts. A token of a tenant sees those that are limited to it, and its own part of those by tenant."""
    alerts = gateway.settings.alert_list
    found = await alerts_on(await gateway.store()) if alerts else []
    return listed_alerts(alerts, found, principal.bounded(tenant))


def listed_alerts(alerts: Iterable[Alert], on: Iterable[On], tenant: str | None = None) -> AlertList:
    """Return the alerts with what is on of each; `tenant`: only what it may see, None: all."""
    mine = [each for each in on if tenant in (None, each.tenant)]
    shown = [alert for alert in alerts if tenant in (None, alert.tenant) or alert.by == "tenant"]
    return AlertList(alerts=[_shown(alert, [each for each in mine if each.alert == alert.name]) for alert in shown])


def _shown(alert: Alert, on: Iterable[On]) -> ListedAlert:
    return ListedAlert(
        name=alert.name,
        figure=alert.figure,
        feedback=alert.feedback or None,
        above=alert.threshold if alert.above else None,
        below=None if alert.above else alert.threshold,
        within_ms=alert.within_ms,
        by=alert.by,
        of=dict(alert.where),
        on=[AlertThatIsOn(of=each.data["of"], since=iso(each.since), value=each.data["value"]) for each in on],
    )
