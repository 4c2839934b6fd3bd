"""JSON Web Tokens (RFC 7519), signed by a key of the issuer's JWKS (RFC 7517)."""

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import jwt
from jwt import PyJWK, PyJWKSet
from jwt.exceptions import PyJWTError

from pipeline.gateway.problems import Problem, later
from turnmill.limits import TENANT_CHARACTERS

# Only asymmetric signatures: with HS256, the public key could be used as the secret.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
FRESH_SECONDS: Final = 300.0  # seconds for which keys are used without asking again
STALE_SECONDS: Final = 2 * FRESH_SECONDS  # seconds for which they are used while a request to the issuer is under way
OUTAGE_SECONDS: Final = 86_400.0  # seconds for which they are used while the issuer does not answer
REQUEST_INTERVAL: Final = 10.0  # seconds between two requests, whatever key ids callers make up
RETRY_INTERVAL: Final = 1.0  # seconds between two requests while no key is known
LEEWAY: Final = 30  # seconds by which clocks may differ
REQUEST_TIMEOUT: Final = 5.0
MAX_BYTES: Final = 1_000_000
OK: Final = 200


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a token that matter here."""

    name: str
    scopes: tuple[str, ...]
    tenant: str | None
    subject: tuple[str, str]  # the issuer, and whom it means
    ends: int  # when the token expires, epoch ms


class JwtVerifier:
    """Checks signature, issuer, audience and times; holds the issuer's keys."""

    def __init__(self, url: str, issuer: str, audience: str, tenant_claim: str, scope_claim: str) -> None:
        self._url = url
        self._issuer = issuer
        self._audience = audience
        self._tenant_claim = tenant_claim
        self._scope_claim = scope_claim
        self._keys: dict[str | None, PyJWK] = {}
        self._trouble: str | None = None
        self._asked = -math.inf
        self._answered = 0.0  # when the keys came
        self._asking: asyncio.Task[None] | None = None

    async def verify(self, token: str) -> Claims:
        """Return the claims that matter here. Raises Problem, as `claims`."""
        claims = await self.claims(token)
        tenant = claims.get(self._tenant_claim) if self._tenant_claim else None
        if self._tenant_claim and not (isinstance(tenant, str) and tenant):
            raise Problem("forbidden", f"the JSON Web Token has no claim {self._tenant_claim!r} that names a tenant")
        if tenant is not None and len(tenant) > TENANT_CHARACTERS:  # a shortened name could be another tenant's
            raise Problem("forbidden", f"a tenant has at most {TENANT_CHARACTERS} characters")
        claim = claims.get(self._scope_claim, ())
        scopes = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
        subject = str(claims.get("sub", "jwt"))
        names = tuple(str(scope).removeprefix("turnmill:") for scope in scopes)
        ends = int(claims["exp"]) * 1000
        return Claims(f"{tenant or self._issuer}/{subject}"[:200], names, tenant, (self._issuer, subject), ends)

    async def claims(self, token: str) -> dict[str, Any]:
        """Return all claims. Raises Problem: 401 for a bad token, 503 if the issuer's keys can't be fetched."""
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(header.get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY,
                options={"require": ["exp"]},
            )
        except PyJWTError as error:
            challenge = 'Bearer realm="turnmill", error="invalid_token"'
            detail = f"the JSON Web Token is refused: {error}"
            raise Problem("unauthorized", detail, headers={"WWW-Authenticate": challenge}) from None
        return claims

    async def _key(self, kid: object) -> PyJWK:
        if kid is not None and not isinstance(kid, str):
            raise jwt.InvalidTokenError("`kid` is no string")
        key, age = self._find(kid), time.monotonic() - self._asked
        if key is None or age > FRESH_SECONDS:
            wait = FRESH_SECONDS if key is not None else REQUEST_INTERVAL if self._keys else RETRY_INTERVAL
            if self._asking is None and age > wait:  # once for all callers; who has no key, or too old ones, waits
                self._asking = asyncio.create_task(self._refresh(), name="jwks")
            if self._asking is not None and (key is None or age > STALE_SECONDS):
                await asyncio.shield(self._asking)
            key = self._find(kid)
        if not self._keys:
            raise later("unavailable", f"the keys that sign tokens can't be had from {self._url}: {self._trouble}")
        if key is None:
            raise jwt.InvalidTokenError("it is signed by a key that the issuer does not have")
        return key

    def _find(self, kid: str | None) -> PyJWK | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _refresh(self) -> None:
        """Fetch the issuer's keys. Known ones stay valid for a day if it doesn't answer.

        No redirect is followed: it could lead to a server without TLS, or into the internal network.
        """
        try:
            timeout = aiohttp.ClientTimeout(REQUEST_TIMEOUT)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self._url, allow_redirects=False) as answer,
            ):
                answer.raise_for_status()
                if answer.status != OK:
                    raise ValueError(f"it answers with status {answer.status}")
                data = bytearray()
                async for chunk in answer.content.iter_any():
                    data += chunk
                    if len(data) > MAX_BYTES:
                        raise ValueError(f"it answers with more than {MAX_BYTES:,} bytes")
            keys = PyJWKSet.from_json(data.decode())
        except (aiohttp.ClientError, TimeoutError, PyJWTError, ValueError) as error:
            self._trouble = str(error) or f"no answer for {REQUEST_TIMEOUT:g} s"
            if time.monotonic() - self._answered > OUTAGE_SECONDS:
                self._keys = {}
        else:
            self._keys = {key.key_id: key for key in keys.keys}
            self._answered = time.monotonic()
        finally:
            self._asked = time.monotonic()
            self._asking = None
