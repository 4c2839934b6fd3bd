"""Webhooks over HTTP: where a tenant's turns, deletions and budget notices are sent."""

from __future__ import annotations

import secrets
from typing import Annotated, Final
from uuid import uuid4

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.security import Admin
from pipeline.gateway.parameters import Tenant
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.state import Gateway, TheGateway
from pipeline.observability.audit import audit, of
from pipeline.policies.webhooks import (
    DEFAULT,
    EVENTS,
    MAX_URL_CHARACTERS,
    Webhook,
    checked_events,
    checked_url,
    secret_of,
)
from pipeline.stores.outbound import deliveries as stored_deliveries
from pipeline.stores.outbound.deliveries import all_webhooks, drop_webhook, rotate_webhook, waiting_deliveries
from turnmill.clock import now_ms
from turnmill.limits import WEBHOOKS

KEY_BYTES: Final = 32
OLD_SECRET_MS: Final = 86_400_000  # for which deliveries are signed with both secrets

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

WebhookId = Annotated[str, Path(max_length=100)]


class Wanted(BaseModel):
    """The wanted webhook."""

    url: str = Field(max_length=MAX_URL_CHARACTERS, description="`https://…`, at a public address.")
    events: list[str] | None = Field(
        None, max_length=20, description=f"Any of {', '.join(EVENTS)}; by default the first {len(DEFAULT)}."
    )


class Shown(BaseModel):
    """A webhook without its secret."""

    id: str
    url: str
    events: list[str]
    tenant: str | None = Field(description="Only events of this tenant; null: of all.")
    created_at: int = Field(description="Epoch milliseconds.")
    waiting: int = Field(0, description="Number of events not delivered yet.")


class Fresh(Shown):
    """A webhook with its new secret, which is shown only once."""

    secret: str = Field(description="`whsec_…`, the key of its signatures (Standard Webhooks).")


class Listed(BaseModel):
    """The webhooks that the caller may see."""

    webhooks: list[Shown]


@router.post(
    "", status_code=201, summary="Set up a webhook", responses=documented("bad-request", "forbidden", "conflict")
)
async def add_webhook(gateway: TheGateway, principal: Admin, wanted: Wanted, tenant: Tenant = None) -> Fresh:
    """Set up a webhook: events are sent by POST as JSON, signed as in Standard Webhooks. The secret is shown once."""
    bound = principal.bounded(tenant)
    try:
        url, events = checked_url(wanted.url), checked_events(wanted.events)
    except ValueError as error:
        raise Problem("bad-request", str(error)) from None
    if len([one for one in await _all(gateway) if one.tenant == bound]) >= WEBHOOKS:
        raise Problem("conflict", f"there are {WEBHOOKS} webhooks already: delete one")
    now = now_ms()
    made = Webhook(f"wh_{uuid4().hex}", url, events, bound, (secret_of(secrets.token_bytes(KEY_BYTES)),), now)
    await stored_deliveries.add_webhook(await gateway.store(), made)
    audit.info(
        "webhook %s at %s set up, by %s", made.id, made.host, principal.text, extra=of("webhook.add", made.id, bound)
    )
    return _fresh(made)


@router.get("", summary="Webhooks of the API", responses=documented("forbidden", "conflict"))
async def list_webhooks(gateway: TheGateway, principal: Admin, tenant: Tenant = None) -> Listed:
    """List the webhooks, without their secrets, and without those of the gateway's settings."""
    bound = principal.bounded(tenant)
    waiting = await waiting_deliveries(await gateway.store())
    mine = [one for one in await _all(gateway) if bound is None or one.tenant == bound]
    return Listed(webhooks=[_shown(one, waiting.get(one.id, 0)) for one in mine])


@router.get("/{webhook_id}", summary="A webhook", responses=documented("not-found", "forbidden", "conflict"))
async def read_webhook(gateway: TheGateway, principal: Admin, webhook_id: WebhookId) -> Shown:
    """Return a webhook, without its secret."""
    found = await _found(gateway, principal, webhook_id)
    waiting = await waiting_deliveries(await gateway.store())
    return _shown(found, waiting.get(found.id, 0))


@router.post(
    "/{webhook_id}/secret",
    summary="Renew a webhook's secret",
    responses=documented("not-found", "forbidden", "conflict"),
)
async def rotate_secret(gateway: TheGateway, principal: Admin, webhook_id: WebhookId) -> Fresh:
    """Give a webhook a new secret, which is shown once. For 24 hours, deliveries are signed with both."""
    found = await _found(gateway, principal, webhook_id)
    secret, now = secret_of(secrets.token_bytes(KEY_BYTES)), now_ms()
    if not await rotate_webhook(await gateway.store(), found.id, secret, now, now + OLD_SECRET_MS):
        raise _missing(webhook_id)
    done = of("webhook.rotate", found.id, found.tenant)
    audit.info("webhook %s has a new secret, by %s", found.id, principal.text, extra=done)
    return _fresh(found, secret)


@router.delete(
    "/{webhook_id}",
    status_code=204,
    summary="Delete a webhook",
    responses=documented("not-found", "forbidden", "conflict"),
)
async def delete_webhook(gateway: TheGateway, principal: Admin, webhook_id: WebhookId) -> None:
    """Delete a webhook; its waiting deliveries are dropped."""
    found = await _found(gateway, principal, webhook_id)
    if not await drop_webhook(await gateway.store(), found.id):
        raise _missing(webhook_id)
    audit.info(
        "webhook %s deleted, by %s", found.id, principal.text, extra=of("webhook.delete", found.id, found.tenant)
    )


async def _all(gateway: Gateway) -> list[Webhook]:
    if gateway.settings.webhooks is None:
        raise Problem("conflict", "webhooks are off here: TURNMILL_WEBHOOKS=[] turns them on, in workers too")
    return await all_webhooks(await gateway.store(), now_ms())


async def _found(gateway: Gateway, principal: Principal, webhook_id: str) -> Webhook:
    """Return the webhook. Raises Problem if it doesn't exist, or is another tenant's."""
    for one in await _all(gateway):
        if one.id == webhook_id and principal.tenant in (None, one.tenant):
            return one
    raise _missing(webhook_id)


def _missing(webhook_id: str) -> Problem:
    return Problem("not-found", f"there is no webhook {webhook_id!r:.80}: GET /v1/webhooks lists those that are")


def _shown(one: Webhook, waiting: int = 0) -> Shown:
    return Shown(
        id=one.id, url=one.url, events=list(one.events), tenant=one.tenant, created_at=one.created_at, waiting=waiting
    )


def _fresh(one: Webhook, secret: str | None = None) -> Fresh:
    return Fresh(**_shown(one).model_dump(), secret=secret or one.secrets[0])
