"""Webhooks over HTTP: where a tenant's turns, deletions and budget notices are sent."""

import secrets
from collections.abc import Iterable
from typing import Annotated, Final, Literal
from uuid import uuid4

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.security import Admin
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.routing import Tenant
from pipeline.gateway.state import Gateway, TheGateway
from pipeline.observability.audit import audit, of
from pipeline.policies.webhooks import (
    DEFAULT,
    EVENTS,
    FORMS,
    MAX_URL_CHARACTERS,
    STANDARD,
    Webhook,
    checked_events,
    checked_url,
    secret_of,
)
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound import deliveries as stored_deliveries
from pipeline.stores.outbound.deliveries import all_webhooks, drop_webhook, rotate_webhook, waiting_deliveries
from turnmill.clock import now_ms
from turnmill.limits import WEBHOOKS

KEY_BYTES: Final = 32
OFF: Final = "webhooks are off here: TURNMILL_WEBHOOKS=[] turns them on, in workers too"
OLD_SECRET_MS: Final = 86_400_000  # for which deliveries are signed with both secrets

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], responses=documented("conflict"))

WebhookId = Annotated[str, Path(max_length=100)]


class WebhookRequest(BaseModel):
    """The wanted webhook."""

    url: str = Field(max_length=MAX_URL_CHARACTERS, description="`https://…`, at a public address.")
    events: list[str] | None = Field(
        None, max_length=20, description=f"Any of {', '.join(EVENTS)}; by default the first {len(DEFAULT)}."
    )
    form: Literal[tuple(FORMS)] = Field(STANDARD, description='`slack`: a message for Slack, `{"text": …}`.')  # type: ignore[valid-type]  # the names of a registry


class ListedWebhook(BaseModel):
    """A webhook without its secret."""

    id: str
    url: str
    events: list[str]
    form: str = Field(description="In which bodies are sent.")
    tenant: str | None = Field(description="Only events of this tenant; null: of all.")
    created_at: int = Field(description="Epoch milliseconds; 0: of the gateway's settings.")
    waiting: int = Field(0, description="Number of events not delivered yet.")


class NewWebhook(ListedWebhook):
    """A webhook with its new secret, which is shown only once."""

    secret: str = Field(description="`whsec_…`, the key of its signatures (Standard Webhooks).")


class WebhookList(BaseModel):
    """The webhooks that the caller may see."""

    webhooks: list[ListedWebhook]


@router.post("", status_code=201, summary="Set up a webhook", responses=documented("bad-request"))
async def add_webhook(
    gateway: TheGateway, principal: Admin, wanted: WebhookRequest, tenant: Tenant = None
) -> NewWebhook:
    """Set up a webhook: events are sent by POST as JSON, signed as in Standard Webhooks. The secret is shown once."""
    bound = principal.bounded(tenant)
    try:
        url, events = checked_url(wanted.url), checked_events(wanted.events)
    except ValueError as error:
        raise Problem("bad-request", str(error)) from None
    if sum(webhook.tenant == bound for webhook in await _all(gateway)) >= WEBHOOKS:
        raise Problem("conflict", f"there are {WEBHOOKS} webhooks already: delete one")
    now = now_ms()
    made = Webhook(
        f"wh_{uuid4().hex}", url, events, bound, (secret_of(secrets.token_bytes(KEY_BYTES)),), now, wanted.form
    )
    await stored_deliveries.add_webhook(await gateway.store(), made)
    audit.info(
        "webhook %s at %s set up, by %s", made.id, made.host, principal.text, extra=of("webhook.add", made.id, bound)
    )
    return _fresh(made)


@router.get("", summary="Webhooks")
async def list_webhooks(gateway: TheGateway, principal: Admin, tenant: Tenant = None) -> WebhookList:
    """List the webhooks, first those of the gateway's settings (ids `setting:NAME`), without their secrets."""
    if gateway.settings.webhooks is None:
        raise Problem("conflict", OFF)
    return await listed_webhooks(await gateway.store(), gateway.settings.webhook_list, principal.bounded(tenant))


async def listed_webhooks(store: ThreadStore, configured: Iterable[Webhook], tenant: str | None = None) -> WebhookList:
    """Return the configured webhooks and those of the API; `tenant`: only those of it, None: all."""
    waiting = await waiting_deliveries(store)
    mine = [hook for hook in (*configured, *await all_webhooks(store, now_ms())) if tenant in (None, hook.tenant)]
    return WebhookList(webhooks=[_shown(webhook, waiting.get(webhook.id, 0)) for webhook in mine])


@router.get("/{webhook_id}", summary="A webhook", responses=documented("not-found"))
async def read_webhook(gateway: TheGateway, principal: Admin, webhook_id: WebhookId) -> ListedWebhook:
    """Return a webhook, without its secret."""
    webhook = await _webhook(gateway, principal, webhook_id)
    waiting = await waiting_deliveries(await gateway.store())
    return _shown(webhook, waiting.get(webhook.id, 0))


@router.post("/{webhook_id}/secret", summary="Renew a webhook's secret", responses=documented("not-found"))
async def rotate_secret(gateway: TheGateway, principal: Admin, webhook_id: WebhookId) -> NewWebhook:
    """Give a webhook a new secret, which is shown once. For 24 hours, deliveries are signed with both."""
    webhook = await _webhook(gateway, principal, webhook_id)
    secret, now = secret_of(secrets.token_bytes(KEY_BYTES)), now_ms()
    if not await rotate_webhook(await gateway.store(), webhook.id, secret, now, now + OLD_SECRET_MS):
        raise _missing(webhook_id)
    done = of("webhook.rotate", webhook.id, webhook.tenant)
    audit.info("webhook %s has a new secret, by %s", webhook.id, principal.text, extra=done)
    return _fresh(webhook, secret)


@router.delete("/{webhook_id}", status_code=204, summary="Delete a webhook", responses=documented("not-found"))
async def delete_webhook(gateway: TheGateway, principal: Admin, webhook_id: WebhookId) -> None:
    """Delete a webhook; its waiting deliveries are dropped."""
    webhook = await _webhook(gateway, principal, webhook_id)
    if not await drop_webhook(await gateway.store(), webhook.id):
        raise _missing(webhook_id)
    audit.info(
        "webhook %s deleted, by %s", webhook.id, principal.text, extra=of("webhook.delete", webhook.id, webhook.tenant)
    )


async def _all(gateway: Gateway) -> list[Webhook]:
    if gateway.settings.webhooks is None:
        raise Problem("conflict", OFF)
    return await all_webhooks(await gateway.store(), now_ms())


async def _webhook(gateway: Gateway, principal: Principal, webhook_id: str) -> Webhook:
    """Return the webhook. Raises Problem if it doesn't exist, or is another tenant's."""
    for webhook in await _all(gateway):
        if webhook.id == webhook_id and principal.tenant in (None, webhook.tenant):
            return webhook
    raise _missing(webhook_id)


def _missing(webhook_id: str) -> Problem:
    return Problem("not-found", f"there is no webhook {webhook_id!r:.80}: GET /v1/webhooks lists those that are")


def _shown(webhook: Webhook, waiting: int = 0) -> ListedWebhook:
    return ListedWebhook.model_validate(webhook, from_attributes=True).model_copy(update={"waiting": waiting})


def _fresh(webhook: Webhook, secret: str | None = None) -> NewWebhook:
    return NewWebhook(**_shown(webhook).model_dump(), secret=secret or webhook.secrets[0])
