"""FastAPI dependencies by which a route admits a caller: they check token, scope, address and rate."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from starlette.types import Scope as ASGIScope

from pipeline.gateway.access.authenticator import BEARER, Authenticator
from pipeline.gateway.access.limits import BEFORE_ANSWER, AtOnce, Rate, at_end
from pipeline.gateway.access.principal import MEANING, Principal, Scope
from pipeline.gateway.access.token_memory import TokenMemory
from pipeline.gateway.access.token_table import is_within
from pipeline.gateway.problems import Problem
from pipeline.gateway.state import Gateway, Service, gateway_of, provided
from pipeline.observability import metrics as m
from pipeline.observability.audit import REFUSED, Actor, Entry, acting
from pipeline.stores.accounts.audit import AuditTrail
from topics.thread_key import ThreadKey

bearer = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="A token of TURNMILL_GATEWAY_TOKENS, or a JSON Web Token. None is needed on loopback without either.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


class Admission(Service):
    """Admits callers, and keeps the trail of what they do; `trail` is None where the store keeps no entries."""

    def __init__(self, gateway: Gateway) -> None:
        """Prepare admission. Raises CallerError for settings that contradict each other or can't be read."""
        settings = gateway.settings
        self.authenticator = Authenticator(settings, TokenMemory(gateway.store))
        self.rate = Rate(settings.gateway_rate)
        self.at_once = AtOnce(settings.gateway_caller_requests)
        self.trail: AuditTrail | None = None
        if settings.audit_retention:
            count_lost = partial(gateway.metrics.add, m.AUDIT_LOST)
            self.trail = AuditTrail(gateway.store, count_lost, notify=settings.webhooks is not None)

    def act(self, request: ASGIScope, name: str = "", token: str = "", tenant: str | None = None) -> Actor:
        """Set and return who acts in a request. What they have done is in the store before they are answered."""
        keep = None if self.trail is None else partial(_keep, self.trail, request)
        client = request.get("client")
        actor = Actor(name, token, client[0] if client else "", tenant, keep)
        acting.set(actor)
        return actor

    def start(self) -> None:
        """Start to write the trail's entries to the store."""
        if self.trail is not None:
            self.trail.start()

    async def close(self) -> None:
        """Write the trail's last entries."""
        if self.trail is not None:
            await self.trail.close()


def _keep(trail: AuditTrail, request: ASGIScope, entry: Entry) -> None:
    trail.keep(entry)
    if entry.outcome != REFUSED:  # refusals may be many
        request[BEFORE_ANSWER] = trail.written


TheAdmission = Annotated[Admission, provided(Admission)]


def admission_of(request: Request) -> Admission:
    """Return the gateway's admission."""
    return gateway_of(request).service(Admission)


async def _admit(
    request: Request, credentials: HTTPAuthorizationCredentials | None, needs: Sequence[str], *, stays: bool = False
) -> Principal:
    admission = admission_of(request)
    token = admission.authenticator.presented(request, credentials)
    return await admitted(admission, request.scope, token, needs, BEARER, stays=stays)


async def authenticated(request: Request, needs: SecurityScopes, credentials: Credentials) -> Principal:
    """Return the principal of a request. Raises Problem, also if it lacks the scope that the route needs.

    The request counts towards the caller's rate.
    """
    return await _admit(request, credentials, needs.scopes)


async def admitted(
    admission: Admission,
    request: ASGIScope,
    token: str | None,
    needs: Sequence[str],
    advice: str,
    *,
    stays: bool = False,
) -> Principal:
    """Return the owner of this token. Raises Problem, also without one of the scopes `needs`.

    `advice`: how to send a token. The request counts towards the caller's rate and, unless it `stays` open in a
    separate pool, towards the caller's limit of open requests.
    """
    principal = await admission.authenticator.principal(token, advice)
    admission.act(request, principal.name, principal.id, principal.tenant)
    if principal.scopes.isdisjoint(needs):
        challenge = f'Bearer realm="turnmill", error="insufficient_scope", scope="{needs[0]}"'
        lacking = " or ".join(f"{scope!r} ({MEANING[scope]})" for scope in needs)
        raise Problem(
            "forbidden",
            f"the token {principal.name!r:.100} lacks the scope {lacking}",
            headers={"WWW-Authenticate": challenge},
        )
    _bound(admission, request, principal, stays=stays)
    return principal


def _bound(admission: Admission, request: ASGIScope, principal: Principal, *, stays: bool = False) -> None:
    """Count a request of an admitted caller. Raises Problem for a wrong address, and beyond the caller's limits."""
    client = request.get("client")
    if principal.addresses and not (client and is_within([client[0]], principal.addresses)):
        raise Problem("forbidden", f"the token {principal.name!r:.100} may not be used from this address")
    if principal.limited:
        admission.rate.take(principal.caller, principal.rate)
        if not stays:
            at_end(request, admission.at_once.begin(principal.caller))


async def _linked(request: Request, credentials: Credentials) -> ThreadKey:
    """Return the thread of the link that a request comes with. Raises Problem for all other callers."""
    admission = admission_of(request)
    principal, key = await admission.authenticator.link("" if credentials is None else credentials.credentials)
    admission.act(request.scope, principal.name, principal.id, principal.tenant)
    _bound(admission, request.scope, principal)
    return key


async def _staying(request: Request, needs: SecurityScopes, credentials: Credentials) -> Principal:
    """As `authenticated`, for a request that stays open in a separate pool."""
    return await _admit(request, credentials, needs.scopes, stays=True)


Sender = Annotated[Principal, Security(authenticated, scopes=["publish"])]
Listening = Annotated[Principal, Security(_staying, scopes=["publish"])]
Reader = Annotated[Principal, Security(authenticated, scopes=["read"])]
Editor = Annotated[Principal, Security(authenticated, scopes=["feedback"])]
Controller = Annotated[Principal, Security(authenticated, scopes=["control"])]
Admin = Annotated[Principal, Security(authenticated, scopes=["admin"])]
Linked = Annotated[ThreadKey, Security(_linked)]


def _either(*scopes: Scope) -> Callable[[Request], Awaitable[Principal]]:
    """Return `authenticated` for any of these scopes. FastAPI can't declare that: see `alternatives`."""

    async def admit(request: Request) -> Principal:
        return await _admit(request, await bearer(request), scopes)

    return admit


def alternatives(*scopes: Scope) -> dict[str, Any]:
    """Return what a route with `_either` adds to the OpenAPI document."""
    return {"security": [{"token": [scope]} for scope in scopes]}


ReaderOrSender = Annotated[Principal, Depends(_either("read", "publish"))]
Judge = Annotated[Principal, Depends(_either("publish", "feedback"))]
Again = Annotated[Principal, Depends(_either("publish", "control"))]

Still = Callable[[], Awaitable[bool]]


async def _still(request: Request, credentials: Credentials) -> Still:
    """Return a function that returns whether the caller is still authorised.

    A token may be revoked or expire while a stream is open.
    """
    authenticator = admission_of(request).authenticator
    token = authenticator.presented(request, credentials)
    principal = await authenticator.principal(token)

    async def still() -> bool:
        try:
            return await authenticator.principal(token) == principal
        except Problem as problem:
            return problem.kind == "unavailable"  # the issuer's keys can't be fetched: the token may be valid

    return still


Standing = Annotated[Still, Depends(_still)]
