"""A provider of OpenID Connect that signs in whom a test names, at once; with faults that a test may ask for."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT: Final = "turnmill"
SECRET: Final = "a secret of the client, of 256 bits or more"  # of this test


def address(name: str) -> dict[str, Any]:
    """Return the claims of somebody whose address the provider has verified."""
    return {"sub": name, "email": f"{name}@acme.example", "email_verified": True}


class Provider:
    """`claims`: of whoever signs in next; `more`: of its userinfo endpoint alone; `wrong`: members of the ID token."""

    def __init__(self) -> None:
        self.url = ""
        self.claims: dict[str, Any] = {**address("ann"), "groups": ["readers"]}
        self.more: dict[str, Any] = {}
        self.wrong: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.fetched = 0  # times that the keys were
        self.rotate()

    def rotate(self) -> None:
        """Sign with another key from now on, the only one of the JWKS."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._kid = secrets.token_hex(4)

    def signed(self, claims: dict[str, Any]) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, **claims}
        return jwt.encode(claims, self._key, "RS256", {"kid": self._kid})

    async def discovery(self, _: web.Request) -> web.Response:
        names = {"authorization": "authorize", "token": "token", "userinfo": "userinfo", "end_session": "end"}
        ends = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in names.items()}
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/jwks", **ends})

    async def jwks(self, _: web.Request) -> web.Response:
        self.fetched += 1
        key = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        return web.json_response({"keys": [{**key, "kid": self._kid, "use": "sig", "alg": "RS256"}]})

    async def authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = asked
        raise web.HTTPFound(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self.codes.pop(str(form["code"]), None)  # once
        challenge = hashlib.sha256(str(form.get("code_verifier", "")).encode()).digest()
        expected = base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != expected or asked["redirect_uri"] != form["redirect_uri"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = self.signed({**self.claims, "sid": "s-1", "nonce": asked["nonce"], **self.wrong})
        return web.json_response({"access_token": "at", "token_type": "Bearer", "expires_in": 60, "id_token": token})

    async def userinfo(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer at"
        return web.json_response({"sub": self.claims["sub"], **self.more})


@asynccontextmanager
async def providing() -> AsyncIterator[Provider]:
    """Yield a provider on loopback."""
    one = Provider()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", one.discovery)
    app.router.add_get("/jwks", one.jwks)
    app.router.add_get("/authorize", one.authorize)
    app.router.add_post("/token", one.token)
    app.router.add_get("/userinfo", one.userinfo)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    one.url = f"http://{host}:{port}"
    try:
        yield one
    finally:
        await runner.cleanup()
