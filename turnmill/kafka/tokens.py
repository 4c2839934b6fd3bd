"""Bearer tokens for SASL OAUTHBEARER: from a file that another program renews, or a token endpoint (RFC 6749, 4.4).

aiokafka requests a token for each new connection, in the thread of that connection.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import AuthenticationFailedError

ANSWER_TIMEOUT: Final = 10.0  # seconds
MAX_ANSWER_BYTES: Final = 1 << 20
REFRESH_AFTER: Final = 0.8  # of a token's lifetime; then a new one is requested
DEFAULT_LIFETIME: Final = 60.0  # seconds, if the endpoint does not say when the token expires


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka's interface around a function that may block and raise AuthenticationFailedError."""

    def __init__(self, fetch: Callable[[], str]) -> None:
        super().__init__()
        self._fetch = fetch

    async def token(self) -> str:
        """Return the current token."""
        return await asyncio.to_thread(self._fetch)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file that holds a token and is replaced before that expires, as Kubernetes projects them."""

    path: Path

    def __call__(self) -> str:
        """Return the token that the file holds now."""
        try:
            token = self.path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationFailedError(f"the token file {self.path} can't be read: {error}") from None
        if not token:
            raise AuthenticationFailedError(f"the token file {self.path} is empty")
        return token


@dataclass(slots=True)
class ClientCredentials:
    """A token endpoint. One token serves all connections until most of its lifetime is over."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None
    tls: SSLContext | None
    _token: str = field(default="", repr=False)
    _renew_at: float = 0.0  # time.monotonic()
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self) -> str:
        """Return a token that is still valid for a while."""
        with self._lock:
            if time.monotonic() >= self._renew_at:
                asked = time.monotonic()
                answer = self._ask()
                self._token = str(answer["access_token"])
                self._renew_at = asked + REFRESH_AFTER * _seconds(answer.get("expires_in"))
            return self._token

    def _ask(self) -> dict[str, Any]:
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        # RFC 6749, 2.3.1: both are form-encoded before they are joined.
        pair = f"{urllib.parse.quote_plus(self.client_id)}:{urllib.parse.quote_plus(self.client_secret)}"
        headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}", "Accept": "application/json"}
        request = urllib.request.Request(self.url, urllib.parse.urlencode(form).encode(), headers)  # noqa: S310  # the settings allow http and https only
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=self.tls))
        try:
            with opener.open(request, timeout=ANSWER_TIMEOUT) as response:
                answer = json.loads(response.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            raise AuthenticationFailedError(
                f"the token endpoint {self.url} answers {error.code} {error.reason}"
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise AuthenticationFailedError(f"the token endpoint {self.url} gives no token: {reason}") from None
        if not isinstance(answer, dict) or not answer.get("access_token"):
            raise AuthenticationFailedError(f"the token endpoint {self.url} answers without an access_token")
        return answer


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: the client secret must be sent only to the address that the settings name."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect; the answer counts as an error."""


def _seconds(value: object) -> float:
    try:
        return max(0.0, float(str(value)))
    except ValueError:
        return DEFAULT_LIFETIME
