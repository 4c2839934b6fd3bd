"""Tokens over HTTP: make, list, rotate with an overlap, revoke. A token grants at most what its maker has."""

from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from pipeline.gateway.access.principal import Principal, Scope
from pipeline.gateway.access.security import Admin, TheAdmission
from pipeline.gateway.access.token_table import Name, Tenant, hashed, is_within, made_token, networks, new_secret
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.routing import Tenant as OfTenant
from pipeline.gateway.state import Gateway, TheGateway
from pipeline.observability.audit import audit, of
from pipeline.stores.accounts import tokens as stored_tokens
from pipeline.stores.accounts.tokens import Token, add_token, all_tokens
from pipeline.turns.column_text import column_text
from turnmill.clock import now_ms
from turnmill.limits import TOKENS

OVERLAP_SECONDS: Final = 86_400
MAX_OVERLAP_SECONDS: Final = 30 * OVERLAP_SECONDS

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])

TokenId = Annotated[str, Path(max_length=100)]


class TokenRequest(BaseModel, extra="forbid"):
    """The wanted token."""

    name: Name
    scopes: list[Scope] = Field(min_length=1)
    tenant: Tenant | None = Field(None, description="Its tenant; null: all that its maker may access.")
    expires: datetime | None = Field(None, description="ISO 8601, or epoch seconds or milliseconds; null: never.")
    rate: int | None = Field(None, ge=1, le=1_000_000, description="Requests a second; null: the general limit.")
    addresses: list[str] = Field([], max_length=100, description="Where it may be used: `10.0.0.0/8`, `2001:db8::1`.")


class ListedToken(BaseModel):
    """A token without its secret; times in epoch milliseconds."""

    id: str
    name: str
    scopes: list[str]
    tenant: str | None
    rate: int | None
    addresses: list[str]
    expires_at: int | None
    made_by: str
    made_at: int
    role: str | None = Field(description="Role of a person who has signed in; null for a token.")
    used_at: int | None = Field(description="Its last use, to the minute.")
    thread: str | None = Field(description="Of a link: the thread that it is for, with its tenant.")
    old_until: int | None = Field(description="Until when the previous secret is valid.")


class MadeToken(ListedToken):
    """A token with its secret, which is shown only once."""

    token: str


class TokenList(BaseModel):
    """The tokens that the caller may see."""

    tokens: list[ListedToken]


@router.post("", status_code=201, summary="Make a token", responses=documented("bad-request", "conflict"))
async def make_token(gateway: TheGateway, admission: TheAdmission, principal: Admin, wanted: TokenRequest) -> MadeToken:
    """Make a token, which is shown once. It grants at most what its maker has: scopes, tenant, time, rate, addresses.

    It is valid here at once, and on all gateways of the store within a second.
    """
    expires = None if wanted.expires is None else int(wanted.expires.timestamp() * 1000)
    try:
        addresses = networks(wanted.addresses)
    except ValueError as error:
        raise Problem("bad-request", f"addresses: {error}") from None
    secret = new_secret()
    made = made_token(
        secret,
        column_text(wanted.name) or "",
        wanted.scopes,
        principal.bounded(wanted.tenant),
        by=principal.name,
        expires_at=_bounded(expires, principal.expires_at),
        rate=_bounded(wanted.rate, principal.rate),
        addresses=addresses or principal.addresses,
    )
    _check(principal, made)
    if made.tenant is not None and column_text(made.tenant) != made.tenant:
        raise Problem("bad-request", "tenant: no thread of the store can have this name")
    if not await add_token(await gateway.store(), made, TOKENS):
        raise Problem("conflict", f"there are {TOKENS:,} tokens already: revoke one")
    admission.authenticator.made.renew()
    audit.info(
        "token %s %r made, by %s", made.id, made.name, principal.text, extra=of("token.make", made.id, made.tenant)
    )
    return MadeToken(**_shown(made).model_dump(), token=secret)


@router.get("", summary="Tokens of the API")
async def list_tokens(gateway: TheGateway, principal: Admin, tenant: OfTenant = None) -> TokenList:
    """List tokens made here or by command, and people's sessions, without secrets; not those of the settings."""
    bound = principal.bounded(tenant)
    tokens = await all_tokens(await gateway.store())
    return TokenList(tokens=[_shown(token) for token in tokens if bound is None or token.tenant == bound])


@router.post("/{token_id}/rotate", summary="Rotate a token", responses=documented("not-found"))
async def rotate_token(
    gateway: TheGateway,
    admission: TheAdmission,
    principal: Admin,
    token_id: TokenId,
    overlap: Annotated[int, Query(ge=0, le=MAX_OVERLAP_SECONDS, description="Seconds that both secrets are valid.")] = (
        OVERLAP_SECONDS
    ),
) -> MadeToken:
    """Give a token a new secret, which is shown once; the old one stays valid for `overlap` seconds."""
    _check(principal, await _token(gateway, principal, token_id))
    secret, now = new_secret(), now_ms()
    rotated = await stored_tokens.rotate_token(
        await gateway.store(), token_id, hashed(secret), now, now + overlap * 1000
    )
    if rotated is None:
        raise _unknown(token_id)
    admission.authenticator.made.renew()
    done = of("token.rotate", token_id, rotated.tenant)
    audit.info("token %s %r rotated, by %s", token_id, rotated.name, principal.text, extra=done)
    return MadeToken(**_shown(rotated).model_dump(), token=secret)


@router.delete("/{token_id}", status_code=204, summary="Revoke a token", responses=documented("not-found"))
async def revoke_token(gateway: TheGateway, admission: TheAdmission, principal: Admin, token_id: TokenId) -> None:
    """Revoke a token: within a second, no gateway accepts it, and its live streams end."""
    token = await _token(gateway, principal, token_id)
    await stored_tokens.revoke_token(await gateway.store(), token_id)
    admission.authenticator.made.renew()
    done = of("token.revoke", token_id, token.tenant)
    audit.info("token %s %r revoked, by %s", token_id, token.name, principal.text, extra=done)


async def _token(gateway: Gateway, principal: Principal, token_id: str) -> Token:
    """Return the token. Raises Problem if it is unknown or another tenant's."""
    for token in await all_tokens(await gateway.store()):
        if token.id == token_id and principal.tenant in (None, token.tenant):
            return token
    raise _unknown(token_id)


def _unknown(token_id: str) -> Problem:
    return Problem("not-found", f"there is no token {token_id!r:.200}: GET /v1/tokens lists those that there are")


def _check(maker: Principal, token: Token) -> None:
    """Raise Problem if a token would grant more than its maker has."""
    if lacking := set(token.scopes) - maker.scopes:
        raise Problem("forbidden", f"{maker.name!r:.100} can't give what it has not: {', '.join(sorted(lacking))}")
    if not is_within(token.addresses, maker.addresses):
        raise Problem("forbidden", f"{maker.name!r:.100} may come from {', '.join(maker.addresses)} alone")
    if not token.is_good(now_ms()):
        raise Problem("bad-request", "`expires` is in the past")


def _bounded(wanted: int | None, most: int | None) -> int | None:
    return most if wanted is None else wanted if most is None else min(wanted, most)


def _shown(token: Token) -> ListedToken:
    fields = {name: getattr(token, name) for name in ListedToken.model_fields if name != "role"}
    return ListedToken(**fields, role=token.session and token.session.role)
