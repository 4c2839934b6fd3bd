"""Authentication: a bearer token, a JSON Web Token or a session's cookie -> a principal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.security import HTTPAuthorizationCredentials

from pipeline.gateway.access.json_web_tokens import JwtVerifier
from pipeline.gateway.access.principal import ANONYMOUS, OF_SETTINGS, SCOPES, Principal
from pipeline.gateway.access.token_memory import TokenMemory
from pipeline.gateway.access.token_table import PREFIX, VARIABLE, TokenTable, hashed
from pipeline.gateway.problems import Problem
from pipeline.policies.local_callers import LOOPBACK, refusal
from pipeline.policies.sign_in import Provider, check
from pipeline.settings import Settings
from pipeline.stores.accounts.tokens import Token
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError

BEARER: Final = "send `Authorization: Bearer TOKEN`"
SAFE: Final = frozenset({"GET", "HEAD"})
PROOF: Final = "x-turnmill"  # a header that no form can send, and no page of another origin may
OF_STORE: Final = "store"  # as the setting's value: only tokens of the store are valid


class Cookie(str):
    """The secret of a session, as received in a cookie; in any other place it is not accepted."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class People:
    """The settings of signing in, and the proof that a request comes from the gateway's page.

    A session is a token of the store with a role. It is valid only in the cookie, and is revoked like any token.
    `cookie`: name of the session's cookie; `mark`: of another that scripts can read.
    """

    origin: str
    providers: tuple[Provider, ...]
    cookie: str
    mark: str

    def presented(self, request: Request) -> Cookie | None:
        """Return a request's session cookie. Raises Problem, 403, if another site may have made the browser send it."""
        value = request.cookies.get(self.cookie)
        if not value:
            return None
        self.check(request.method, request.headers)
        return Cookie(value)

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise Problem unless the gateway's page sent the request; reading is also allowed from a typed address."""
        site = headers.get("sec-fetch-site", "same-origin")
        ours = headers.get("origin", self.origin) == self.origin and site in ("same-origin", "none")
        if not ours or (method not in SAFE and (PROOF not in headers or "origin" not in headers)):
            raise Problem(
                "forbidden", "this request carries a session's cookie, and is not from the page of its gateway"
            )


class Authenticator:
    """Checks tokens of the settings and of the store, or JSON Web Tokens; on loopback alone, it may check nothing."""

    def __init__(self, settings: Settings, made: TokenMemory) -> None:
        """Prepare authentication; `made`: the tokens of the store.

        Raises CallerError if the gateway is reachable from other hosts, and would be open to everybody.
        """
        tokens = settings.gateway_tokens
        of_store = tokens is not None and tokens.get_secret_value().strip() == OF_STORE
        self._table = TokenTable(tokens.get_secret_value()) if tokens is not None and not of_store else None
        self._jwt = verifier_of(settings)
        self.made = made
        self.people = people_of(settings)
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
        principal = self._table.find(token) if self._table is not None else None
        if principal is None and self._jwt is not None and token.count(".") == 2:
            signed = await self._jwt.verify(token)
            scopes = frozenset(signed.scopes) & set(SCOPES)
            principal = Principal(signed.name, scopes, signed.tenant, subject=signed.subject, ends=signed.ends)
        if principal is None and token.startswith(PREFIX):
            made = await self.made.find(hashed(token), wait=isinstance(token, Cookie))
            if made is not None and made.thread is None and (made.session is not None) == isinstance(token, Cookie):
                principal = _principal(made)
        if principal is None:
            over = "the session is over" if isinstance(token, Cookie) else "this token is not known here"
            raise self._unauthorized(over, 'error="invalid_token"')
        return principal

    async def link(self, token: str) -> tuple[Principal, ThreadKey]:
        """Return who comes by a link, without any scope, and its thread. Raises Problem, 401 without a good link."""
        made = await self.made.find(hashed(token)) if token.startswith(PREFIX) else None
        if made is None or made.thread is None or not self._stands(made):
            raise self._unauthorized("this link has ended, or was cut off on its way", 'error="invalid_token"')
        return _principal(made), ThreadKey.parse(made.thread)

    def _stands(self, link: Token) -> bool:
        """Return whether its maker may still read the thread: the links of other tokens are deleted with them."""
        kind, _, name = (link.maker or "").partition("/")
        return kind != OF_SETTINGS or (self._table is not None and self._table.reads(name, link.tenant))

    def presented(self, request: Request, credentials: HTTPAuthorizationCredentials | None) -> str | None:
        """Return a request's bearer token, or else its session cookie. Raises Problem for a request of another site."""
        if credentials is not None:
            return credentials.credentials
        return None if self.people is None else self.people.presented(request)

    def _unauthorized(self, detail: str, error: str) -> Problem:
        """Return the problem; where people can sign in, it names the providers."""
        challenge = 'Bearer realm="turnmill"' + (f", {error}" if error else "")
        problem = Problem("unauthorized", detail, headers={"WWW-Authenticate": challenge})
        if self.people is not None:
            problem.more["sign_in"] = {provider.name: provider.title for provider in self.people.providers}
        return problem

    def guard(self, headers: Mapping[str, str]) -> None:
        """Refuse pages of other origins while there are no tokens. Raises Problem, 403, on every path."""
        if self.open and (why := refusal(headers, self._origins)) is not None:
            raise Problem("forbidden", f"without tokens, {why}")


def _principal(token: Token) -> Principal:
    of = {"id": token.id, "rate": token.rate, "addresses": token.addresses, "ends": token.expires_at}
    if token.session is None:
        of["expires_at"] = token.expires_at  # only for tokens: what a person makes may outlast the session
    else:
        of["subject"] = token.session.provider, token.session.subject
    return Principal(token.name, frozenset(token.scopes), token.tenant, **of)  # type: ignore[arg-type]  # each under its field's name


def verifier_of(settings: Settings) -> JwtVerifier | None:
    """Return the verifier of JSON Web Tokens, None if no JWKS is set. Raises CallerError if settings are missing."""
    url, issuer, audience = settings.gateway_jwks_url, settings.gateway_jwt_issuer, settings.gateway_jwt_audience
    if url is None:
        return None
    if not issuer or not audience:
        raise CallerError(
            "TURNMILL_GATEWAY_JWKS_URL needs TURNMILL_GATEWAY_JWT_ISSUER and TURNMILL_GATEWAY_JWT_AUDIENCE: "
            "without them tokens that were made for another service would be let in"
        )
    tenant = settings.gateway_jwt_tenant_claim
    return JwtVerifier(url, issuer, audience, "" if tenant == "none" else tenant, settings.gateway_jwt_scope_claim)


def people_of(settings: Settings) -> People | None:
    """Return how people sign in, None if they can't. Raises CallerError if some settings are missing."""
    if settings.gateway_oidc is None:
        return None
    if settings.gateway_url is None or settings.gateway_oidc_roles is None:
        raise CallerError(
            "TURNMILL_GATEWAY_OIDC needs TURNMILL_GATEWAY_URL, to which providers send people back, and "
            "TURNMILL_GATEWAY_OIDC_ROLES, without which nobody may do anything"
        )
    try:
        providers = settings.provider_list
    except ValueError as error:
        raise CallerError(f"TURNMILL_GATEWAY_OIDC, with _CLIENT_ID and _CLIENT_SECRET: {error}") from None
    check(settings.role_list, providers)
    parts = urlsplit(settings.gateway_url)
    prefix = "__Host-" if parts.scheme == "https" else ""
    return People(f"{parts.scheme}://{parts.netloc}", providers, f"{prefix}turnmill", f"{prefix}turnmill-signed-in")
