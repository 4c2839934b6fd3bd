"""Authentication: bearer tokens -> a principal with scopes and, perhaps, a tenant.

A principal with a tenant can access that tenant's threads and nothing else; one without can access all (if there are
several tenants, give every token one). Tokens are random, so storing a plain SHA-256 of them is safe.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, get_args

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.types import Scope as ASGIScope

from pipeline.gateway.headers import at_end
from pipeline.gateway.json_web_tokens import JwtVerifier
from pipeline.gateway.limits import AtOnce, Rate
from pipeline.gateway.people import Cookie, People
from pipeline.gateway.problems import Problem
from pipeline.gateway.token_memory import TokenMemory
from pipeline.observability.audit import Actor, acting
from pipeline.settings import LOOPBACK, Settings
from pipeline.stores.audit_trail import AuditTrail
from pipeline.stores.tokens import Token
from turnmill.clock import now_ms
from turnmill.errors import CallerError

Scope = Literal["publish", "feedback", "read", "control", "admin"]
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
MEANING: Final = {
    "publish": "send runs",
    "feedback": "say what you think of threads, save views",
    "read": "read threads, live streams and usage",
    "control": "stop, steer and answer runs",
    "admin": "delete and hold threads, read dead letters",
}
PREFIX: Final = "tm_"  # so that secret scanners recognise our tokens
BEARER: Final = "send `Authorization: Bearer TOKEN`"
VARIABLE: Final = "TURNMILL_GATEWAY_TOKENS"
OF_STORE: Final = "store"  # as the setting's value: only tokens of the store are valid

Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Tenant = Annotated[str, StringConstraints(min_length=1, max_length=200)]


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. With `tenant` None, all tenants are accessible.

    For a token of the store: its id, its own `rate` of requests a second, when it expires (epoch ms), and the networks
    that it may be used from.
    """

    name: str
    scopes: frozenset[str]
    tenant: str | None = None
    limited: bool = True  # by the rate limit
    id: str = ""
    rate: int | None = None
    expires_at: int | None = None
    addresses: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The name in the audit log."""
        return f"{self.name!r} of tenant {self.tenant!r}"

    @property
    def caller(self) -> tuple[str | None, str]:
        """The key by which requests are counted; two tenants may have tokens of the same name."""
        return self.tenant, self.id or self.name

    def bounded(self, asked: str | None) -> str | None:
        """Return the tenant that a query is limited to, None for all. Raises Problem if another one is asked for."""
        if self.tenant is None or asked in (None, self.tenant):
            return self.tenant or asked
        raise Problem("forbidden", f"this token is bound to its own tenant: leave out tenant={asked!r:.80}")


ANONYMOUS: Final = Principal("anonymous", frozenset(SCOPES), limited=False)


class TokenLine(BaseModel):
    """One token, as in the settings or the token file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    tenant: Tenant | None = None


def new_secret() -> str:
    """Return a new token of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def made_token(
    secret: str,
    name: str,
    scopes: Iterable[str],
    tenant: str | None,
    *,
    by: str,
    expires_at: int | None = None,
    rate: int | None = None,
    addresses: Sequence[str] = (),
) -> Token:
    """Return a new token as the store keeps it."""
    return Token(
        id=f"tk_{secrets.token_hex(8)}",
        digest=hashed(secret),
        name=name,
        tenant=tenant,
        scopes=tuple(sorted(set(scopes))),
        made_by=by,
        made_at=now_ms(),
        rate=rate,
        addresses=tuple(addresses),
        expires_at=expires_at,
    )


def networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Return networks in their usual form. Raises ValueError."""
    return tuple(str(ipaddress.ip_network(text.strip())) for text in texts)


def is_within(inner: Iterable[str], outer: Sequence[str]) -> bool:
    """Return True if each network or address of `inner` lies in one of `outer`, or if `outer` is empty."""
    around = [ipaddress.ip_network(text) for text in outer]
    found = map(ipaddress.ip_network, inner)
    return not around or all(
        any(one.version == other.version and one.subnet_of(other) for other in around)  # type: ignore[arg-type]
        for one in found
    )


def new_token(name: str, scopes: tuple[Scope, ...], tenant: str | None) -> tuple[str, TokenLine]:
    """Return a new token of 256 random bits, and its line for the token file."""
    token = new_secret()
    return token, TokenLine(name=name, sha256=hashed(token), scopes=scopes, tenant=tenant)


def hashed(token: str) -> str:
    """Return the SHA-256, in hexadecimal digits."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def parse_tokens(text: str, source: str) -> dict[str, Principal]:
    """Return the principals of JSON lines, by hash. Raises CallerError that names the line without showing it."""
    found: dict[str, Principal] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            token = TokenLine.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise CallerError(
                f"{source}, line {number}: {where + ': ' if where else ''}{first['msg']}; "
                "`turnmill gateway token` makes such a line"
            ) from None
        if token.sha256 in found:
            raise CallerError(f"{source}, line {number}: this token is there twice")
        found[token.sha256] = Principal(token.name, frozenset(token.scopes), token.tenant)
    return found


class TokenTable:
    """The tokens of TURNMILL_GATEWAY_TOKENS. A changed file is read again; if it is broken, the old tokens stay."""

    def __init__(self, setting: str) -> None:
        """Read the tokens of `setting`: JSON lines, or the path of a file of them. Raises CallerError."""
        self._path = None if setting.lstrip().startswith("{") else Path(setting)
        self._stamp: object = None
        self._tokens = parse_tokens(setting, VARIABLE) if self._path is None else {}
        if self._path is not None:
            self._load(self._path)
        if not self._tokens:
            raise CallerError(f"{VARIABLE} holds no token: `turnmill gateway token` makes one")

    def find(self, token: str) -> Principal | None:
        """Return the owner of this token.

        It is looked up by hash, so the time that takes reveals nothing about other tokens.
        """
        if self._path is not None:
            with contextlib.suppress(CallerError):  # the previous tokens stay valid
                self._load(self._path)
        return self._tokens.get(hashed(token))

    def _load(self, path: Path) -> None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._stamp:
                return
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8"
            raise CallerError(f"{VARIABLE}: {path} can't be read: {why}") from None
        self._stamp = stamp
        self._tokens = parse_tokens(text, str(path))


class Authenticator:
    """Checks tokens of the settings and of the store, or JSON Web Tokens; on loopback alone, it may check nothing."""

    def __init__(self, settings: Settings, made: TokenMemory) -> None:
        """Prepare authentication; `made`: the tokens of the store.

        Raises CallerError if the gateway is reachable from other hosts, and would be open to everybody.
        """
        tokens = settings.gateway_tokens
        of_store = tokens is not None and tokens.get_secret_value().strip() == OF_STORE
        self._table = TokenTable(tokens.get_secret_value()) if tokens is not None and not of_store else None
        self._jwt = JwtVerifier.of(settings)
        self.made = made
        self.people = People.of(settings)
        self.open = tokens is None and self._jwt is None and self.people is None
        if self.open and settings.gateway_host not in LOOPBACK:
            raise CallerError(
                f"a gateway on {settings.gateway_host} would be open to everybody: set {VARIABLE} "
                "(`turnmill gateway token` makes one) or TURNMILL_GATEWAY_JWKS_URL, or leave "
                "TURNMILL_GATEWAY_HOST at 127.0.0.1"
            )
        self._origins = frozenset(settings.gateway_origin_list)

    async def principal(self, token: str | None, advice: str = BEARER) -> Principal:
        """Return the caller. Raises Problem, 401 without a good token."""
        if self.open:
            return ANONYMOUS
        if not token:
            raise self._unauthorized(advice, "")
        found = self._table.find(token) if self._table is not None else None
        if found is None and self._jwt is not None and token.count(".") == 2:
            found_claims = await self._jwt.verify(token)
            found = Principal(found_claims.name, frozenset(found_claims.scopes) & set(SCOPES), found_claims.tenant)
        if found is None and token.startswith(PREFIX):
            made = await self.made.find(hashed(token), wait=isinstance(token, Cookie))
            if made is not None and (made.session is not None) == isinstance(token, Cookie):
                found = _principal(made)
        if found is None:
            over = "the session is over" if isinstance(token, Cookie) else "this token is not known here"
            raise self._unauthorized(over, 'error="invalid_token"')
        return found

    def presented(self, request: Request, credentials: HTTPAuthorizationCredentials | None) -> str | None:
        """Return a request's bearer token, or else its session cookie. Raises Problem for a request of another site."""
        if credentials is not None:
            return credentials.credentials
        return None if self.people is None else self.people.presented(request)

    def _unauthorized(self, detail: str, error: str) -> Problem:
        """Return the problem; where people can sign in, it names the providers."""
        challenge = 'Bearer realm="turnmill"' + (f", {error}" if error else "")
        more = {} if self.people is None else {"sign_in": {one.name: one.title for one in self.people.providers}}
        return Problem("unauthorized", detail, headers={"WWW-Authenticate": challenge}, **more)

    def guard(self, headers: Mapping[str, str]) -> None:
        """Refuse pages of other origins while there are no tokens. Raises Problem, 403, on every path.

        A browser would otherwise let any page act on the gateway of its user: by a form or `fetch` across origins, or
        by a name of its own that points to 127.0.0.1 (DNS rebinding). Another port of this machine is another origin,
        too.
        """
        if not self.open:
            return
        host = _without_port(headers.get("host", "localhost"))
        if host not in LOOPBACK:
            raise Problem("forbidden", f"without tokens the gateway is for localhost, not for a host {host!r:.80}")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and origin.partition("://")[2] != headers.get("host"):
            raise Problem("forbidden", f"without tokens no page of {origin!r:.80} may call the gateway")


def _principal(token: Token | None) -> Principal | None:
    if token is None:
        return None
    of = {"id": token.id, "rate": token.rate, "addresses": token.addresses}
    if token.session is None:
        of["expires_at"] = token.expires_at  # only for tokens: what a person makes may outlast the session
    return Principal(token.name, frozenset(token.scopes), token.tenant, **of)  # type: ignore[arg-type]


def _without_port(host: str) -> str:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower()


bearer = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="A token of TURNMILL_GATEWAY_TOKENS, or a JSON Web Token. None is needed on loopback without either.",
)


class Admission(Protocol):
    """The services that admit callers."""

    authenticator: Authenticator
    rate: Rate
    at_once: AtOnce
    trail: AuditTrail | None


async def authenticated(
    request: Request,
    needs: SecurityScopes,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Principal:
    """Return the principal of a request. Raises Problem, also if it lacks the scope that the route needs.

    The request counts towards the caller's rate.
    """
    gateway: Admission = request.app.state.gateway
    token = gateway.authenticator.presented(request, credentials)
    return await admitted(gateway, request.scope, token, needs.scopes, BEARER)


async def admitted(
    gateway: Admission,
    request: ASGIScope,
    token: str | None,
    needs: Sequence[str],
    advice: str,
    *,
    stays: bool = False,
) -> Principal:
    """Return the owner of this token. Raises Problem, also without one of the scopes `needs`.

    `advice`: how to send a token. The request counts towards the caller's rate and, unless it `stays` open in a pool of
    its own, towards the caller's limit of open requests.
    """
    principal = await gateway.authenticator.principal(token, advice)
    client = request.get("client")
    if gateway.trail is not None:
        address = client[0] if client else ""
        acting.set(Actor(principal.name, principal.id, address, principal.tenant, gateway.trail.keep))
    if principal.scopes.isdisjoint(needs):
        challenge = f'Bearer realm="turnmill", error="insufficient_scope", scope="{needs[0]}"'
        lacking = " or ".join(f"{scope!r} ({MEANING[scope]})" for scope in needs)
        raise Problem(
            "forbidden",
            f"the token {principal.name!r:.100} lacks the scope {lacking}",
            headers={"WWW-Authenticate": challenge},
        )
    if principal.addresses and not (client and is_within([client[0]], principal.addresses)):
        raise Problem("forbidden", f"the token {principal.name!r:.100} may not be used from this address")
    if principal.limited:
        gateway.rate.take(principal.caller, principal.rate)
        if not stays:
            at_end(request, gateway.at_once.begin(principal.caller))
    return principal


async def _staying(
    request: Request,
    needs: SecurityScopes,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Principal:
    """As `authenticated`, for a request that stays open in a pool of its own."""
    gateway: Admission = request.app.state.gateway
    token = gateway.authenticator.presented(request, credentials)
    return await admitted(gateway, request.scope, token, needs.scopes, BEARER, stays=True)


Sender = Annotated[Principal, Security(authenticated, scopes=["publish"])]
Listening = Annotated[Principal, Security(_staying, scopes=["publish"])]
Reader = Annotated[Principal, Security(authenticated, scopes=["read"])]
Editor = Annotated[Principal, Security(authenticated, scopes=["feedback"])]
Controller = Annotated[Principal, Security(authenticated, scopes=["control"])]
Admin = Annotated[Principal, Security(authenticated, scopes=["admin"])]


def _either(*scopes: Scope) -> Callable[[Request], Awaitable[Principal]]:
    """Return `authenticated` for any of these scopes. FastAPI can't declare that: see `alternatives`."""

    async def admit(request: Request) -> Principal:
        gateway: Admission = request.app.state.gateway
        token = gateway.authenticator.presented(request, await bearer(request))
        return await admitted(gateway, request.scope, token, scopes, BEARER)

    return admit


def alternatives(*scopes: Scope) -> dict[str, Any]:
    """Return what a route with `_either` adds to the OpenAPI document."""
    return {"security": [{"token": [scope]} for scope in scopes]}


ReaderOrSender = Annotated[Principal, Depends(_either("read", "publish"))]
Judge = Annotated[Principal, Depends(_either("publish", "feedback"))]
Again = Annotated[Principal, Depends(_either("publish", "control"))]

Still = Callable[[], Awaitable[bool]]


async def _still(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Still:
    """Return a function that returns whether the caller is still authorised.

    A token may be revoked or expire while a stream is open.
    """
    authenticator: Authenticator = request.app.state.gateway.authenticator
    token = authenticator.presented(request, credentials)
    principal = await authenticator.principal(token)

    async def still() -> bool:
        try:
            return await authenticator.principal(token) == principal
        except Problem as problem:
            return problem.kind == "unavailable"  # the issuer's keys can't be fetched: the token may be valid

    return still


Standing = Annotated[Still, Depends(_still)]
