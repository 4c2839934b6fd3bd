"""Sign-in by OpenID Connect (authorization code with PKCE); sign-out here, at the provider, and by back channel.

Authlib implements the protocol. Loaded only if TURNMILL_GATEWAY_OIDC is set.
"""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import Any, Final
from urllib.parse import parse_qs

import httpx2
import jwt
from authlib.integrations.starlette_client import OAuth, OAuthError
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from joserfc.errors import JoseError
from pydantic import BaseModel

from pipeline.gateway.access.authenticator import People
from pipeline.gateway.access.json_web_tokens import ALGORITHMS, LEEWAY, JwtVerifier
from pipeline.gateway.access.security import Admission, Reader
from pipeline.gateway.access.token_table import hashed, made_token, new_secret
from pipeline.gateway.problems import Problem
from pipeline.gateway.state import Gateway
from pipeline.observability.audit import REFUSED, audit, of
from pipeline.policies.sign_in import SCOPES, Provider, granted, name_of
from pipeline.stores.accounts.tokens import Session, all_tokens, begin_session, end_session, end_sessions
from pipeline.turns.column_text import column_text
from turnmill.clock import now_ms

SIGN_IN_SECONDS: Final = 600  # seconds that a sign-in may take
MAX_TABS: Final = 4  # tabs in which one browser may sign in at the same time
# `leeway`: otherwise short-lived access tokens would count as expired.
REQUESTS: Final = {"scope": "openid profile email", "code_challenge_method": "S256", "timeout": 10.0, "leeway": 0}
FORM_BYTES: Final = 65_536
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
FAILURES: Final = (OAuthError, JoseError, httpx2.HTTPError, RuntimeError, ValueError, KeyError)
PAGE_POLICY: Final = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

log = logging.getLogger(__name__)


class Person(BaseModel):
    """Who is signed in."""

    name: str
    role: str | None
    scopes: list[str]
    tenant: str | None


def routes(gateway: Gateway) -> APIRouter:
    """Return the routes of signing in and out."""
    admission = gateway.service(Admission)
    people = admission.authenticator.people
    return APIRouter() if people is None else _Routes(gateway, admission, people).router


class _Routes:
    def __init__(self, gateway: Gateway, admission: Admission, people: People) -> None:
        self._people = people
        self._store = gateway.store
        self._admission = admission
        self._settings = gateway.settings
        self._rules = gateway.settings.role_list
        self._providers = {provider.name: provider for provider in people.providers}
        self._verifiers: dict[str, JwtVerifier] = {}
        self._oauth = OAuth()
        trusted = httpx2.create_ssl_context()  # once: to read the authorities holds the loop for a tenth of a second
        for provider in people.providers:
            self._oauth.register(
                provider.name,
                client_id=provider.client_id,
                client_secret=provider.client_secret.get_secret_value(),
                server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
                client_kwargs={**REQUESTS, "verify": trusted},
            )
        self.router = APIRouter(include_in_schema=False)
        self.router.get("/sign-in")(self.begin)
        self.router.get("/sign-in/{name}/callback")(self.finish)
        self.router.get("/v1/session")(self.session)
        self.router.post("/sign-out")(self.sign_out)
        self.router.post("/sign-out/{name}")(self.back_channel)

    async def begin(self, request: Request, provider: str = "", to: str = "") -> Response:
        """Send the browser to a provider. `to`: the view of the dashboard to return to, such as `#/threads`."""
        name = provider or next(iter(self._providers))
        chosen = self._provider(name)
        request.scope["session"] = {}
        try:
            client = await self._client(chosen)
            url = f"{self._people.origin}/sign-in/{name}/callback"
            answer: Response = await client.authorize_redirect(request, url)
        except FAILURES as error:
            return self._failed(f"{chosen.title} does not answer as a provider of sign-in should.", error)
        [(key, kept)] = request.scope["session"].items()
        kept = {**kept, "key": key, "to": to if to.startswith("#/") else "", "exp": now_ms() // 1000 + SIGN_IN_SECONDS}
        before = [cookie for cookie in request.cookies if cookie.startswith(self._begun_name(""))]
        if len(before) >= MAX_TABS:
            self._forget(answer, *before)
        state = key.rsplit("_", 1)[-1]
        self._keep(answer, self._begun_name(state), jwt.encode(kept, self._key(chosen), "HS256"), SIGN_IN_SECONDS)
        return answer

    async def finish(self, request: Request, name: str) -> Response:
        """Handle a provider's answer: begin a session if a rule gives the person a role."""
        provider = self._provider(name)
        attempt = self._begun_name(request.query_params.get("state", ""))
        try:
            kept = jwt.decode(request.cookies.get(attempt, ""), self._key(provider), ["HS256"])
            request.scope["session"] = {kept["key"]: {"data": kept["data"], "exp": kept["exp"]}}
            client = await self._client(provider)
            answered = await client.authorize_access_token(
                request,
                leeway=LEEWAY,
                claims_options={"iss": {"value": provider.issuer}, "aud": {"value": provider.client_id}},
            )
            claims = await self._claims(client, answered)
        except jwt.PyJWTError as error:
            return self._failed("This sign-in was not begun in this browser, took too long, or is over already.", error)
        except FAILURES as error:
            self._admission.act(request.scope)
            extra = of("sign-in", name, outcome=REFUSED)
            audit.warning("sign-in by %r refused: %s", name, type(error).__name__, extra=extra)
            return self._forget(self._failed(f"{provider.title} did not sign you in.", error), attempt)
        who = column_text(name_of(claims)) or "?"
        grant = granted(claims, name, self._rules)
        if grant is None:
            self._admission.act(request.scope, who)
            extra = of("sign-in", name, outcome=REFUSED)
            audit.warning("sign-in of %r by %r refused: no rule gives a role", who, name, extra=extra)
            text = f"You are {who}, and no rule gives you a role here. Ask {self._settings.gateway_oidc_contact}."
            return self._forget(_page(403, "You may not use this gateway", text), attempt)
        secret, until = new_secret(), now_ms() + int(self._settings.gateway_session_seconds * 1000)
        scopes, idle = SCOPES[grant.role], int(self._settings.gateway_session_idle * 1000)
        session = Session(name, str(claims["sub"]), claims.get("sid"), grant.role, idle)
        made = made_token(secret, who, scopes, grant.tenant, by=f"sign-in by {name}", expires_at=until)
        store = await self._store()
        await begin_session(store, replace(made, session=session), answered.get("id_token"), now_ms())
        await self._end(request)
        self._admission.authenticator.made.renew()
        self._admission.act(request.scope, who, made.id)
        audit.info("%r signed in by %r as %s", who, name, grant.role, extra=of("sign-in", name, grant.tenant))
        answer = self._forget(RedirectResponse(f"/{kept['to']}", 303), attempt)
        self._keep(answer, self._people.cookie, secret, int(self._settings.gateway_session_seconds))
        self._keep(answer, self._people.mark, "1", int(self._settings.gateway_session_seconds), seen=True)
        return answer

    async def session(self, principal: Reader) -> Person:
        """Return who is signed in."""
        token = next((token for token in await all_tokens(await self._store()) if token.id == principal.id), None)
        role = token.session.role if token is not None and token.session is not None else None
        return Person(name=principal.name, role=role, scopes=sorted(principal.scopes), tenant=principal.tenant)

    async def sign_out(self, request: Request) -> Response:
        """End the session here; return the address at which the provider ends its session."""
        self._people.check(request.method, request.headers)
        whose = await self._admission.authenticator.made.find(hashed(request.cookies.get(self._people.cookie, "")))
        ended = await self._end(request)
        to = "/"
        if ended is not None and whose is not None:
            self._admission.act(request.scope, whose.name, whose.id)
            audit.info("%r signed out", whose.name, extra=of("sign-out", ended[0].provider, whose.tenant))
        if ended is not None:
            session, id_token = ended
            provider = self._providers.get(session.provider)
            try:
                if provider is not None:
                    client = await self._client(provider)
                    back = f"{self._people.origin}/"
                    to = (await client.create_logout_url(back, id_token, client_id=provider.client_id))["url"]
            except FAILURES as error:  # it has no such endpoint, or does not answer; the session ends here all the same
                log.info("signed out of the gateway alone: %s", type(error).__name__)
        return self._forget(JSONResponse({"to": to}), self._people.cookie, self._people.mark)

    async def back_channel(self, request: Request, name: str) -> Response:
        """End sessions because their provider says so (OpenID Connect Back-Channel Logout 1.0, section 2.6)."""
        provider = self._provider(name)
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > FORM_BYTES:
                raise Problem("too-large", f"a log-out may have {FORM_BYTES:,} bytes")
        token = parse_qs(body.decode("utf-8", "replace")).get("logout_token", [""])[0]
        try:
            if name not in self._verifiers:
                keys = (await self._client(provider)).server_metadata["jwks_uri"]
                self._verifiers[name] = JwtVerifier(keys, provider.issuer, provider.client_id, "", "")
            claims = await self._verifiers[name].claims(token)
        except FAILURES:
            raise Problem("unavailable", f"{provider.title} does not answer") from None
        except Problem as problem:
            raise Problem("bad-request", problem.detail) if problem.kind == "unauthorized" else problem from None
        sub, sid, events = claims.get("sub"), claims.get("sid"), claims.get("events")
        is_logout = isinstance(events, dict) and isinstance(events.get(LOGOUT_EVENT), dict)
        if not is_logout or "nonce" in claims or not (sub or sid):
            raise Problem("bad-request", "this is no logout token")
        count = await end_sessions(await self._store(), name, sub, sid)
        self._admission.authenticator.made.renew()
        self._admission.act(request.scope)
        audit.info("%d sessions ended by %r", count, name, extra=of("sign-out", f"{name}: {count} sessions"))
        return Response(status_code=200)

    async def _client(self, provider: Provider) -> Any:
        """Return Authlib's client. Raises ValueError if the metadata is of another issuer."""
        client = self._oauth.create_client(provider.name)
        metadata = await client.load_server_metadata()
        issuer = metadata.get("issuer")
        if issuer != provider.issuer:
            metadata.pop("_loaded_at", None)
            raise ValueError(f"it calls itself {issuer!r:.200}, and the setting {provider.issuer!r}")
        signed = metadata.get("id_token_signing_alg_values_supported", ["RS256"])
        metadata["id_token_signing_alg_values_supported"] = [provider for provider in signed if provider in ALGORITHMS]
        return client

    async def _claims(self, client: Any, answered: Mapping[str, Any]) -> dict[str, Any]:
        """Return the claims of the ID token, and those that only the userinfo endpoint returns."""
        claims = dict(answered["userinfo"])
        if client.server_metadata.get("userinfo_endpoint"):
            more = dict(await client.userinfo(token=answered))
            if more.get("sub") != claims["sub"]:
                raise ValueError("its two answers are about two people")
            claims = {**more, **claims}
        return claims

    async def _end(self, request: Request) -> tuple[Session, str | None] | None:
        secret = request.cookies.get(self._people.cookie)
        if not secret:
            return None
        ended = await end_session(await self._store(), hashed(secret))
        self._admission.authenticator.made.renew()
        return ended

    def _provider(self, name: str) -> Provider:
        if name not in self._providers:
            raise Problem("not-found", f"no provider {name!r:.100} is set")
        return self._providers[name]

    def _key(self, provider: Provider) -> bytes:
        return hmac.digest(provider.client_secret.get_secret_value().encode(), b"turnmill sign-in", "sha256")

    def _begun_name(self, state: str) -> str:
        """Return the name of an attempt's cookie. Each attempt has another, so that tabs do not disturb each other."""
        return f"{self._people.cookie}-begun-" + (hashlib.sha256(state.encode()).hexdigest()[:16] if state else "")

    def _keep(self, answer: Response, name: str, value: str, seconds: int, *, seen: bool = False) -> None:
        secure = name.startswith("__Host-")
        answer.set_cookie(name, value, max_age=seconds, secure=secure, httponly=not seen, samesite="lax")

    def _forget(self, answer: Response, *names: str) -> Response:
        for name in names:
            answer.delete_cookie(name, secure=name.startswith("__Host-"), samesite="lax")
        return answer

    def _failed(self, text: str, error: Exception) -> Response:
        log.warning("a sign-in failed: %s: %.300s", type(error).__name__, error)
        return _page(400, "Signing in did not work", text)


def _page(status: int, title: str, text: str) -> HTMLResponse:
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)} · Turnmill</title>'
        f'<link rel="stylesheet" href="/static/style.css"><main><section class="card message"><h1>{escape(title)}</h1>'
        f'<p>{escape(text)}</p><p><a href="/">Try again</a></p></section></main></html>'
    )
    return HTMLResponse(html, status, {"Content-Security-Policy": PAGE_POLICY})
