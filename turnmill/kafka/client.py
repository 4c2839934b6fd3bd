"""The options of every Kafka client of ours: addresses of the brokers, TLS, and the login.

Bearer tokens for SASL OAUTHBEARER come from a file that another program renews, or from a token endpoint (RFC 6749,
4.4). aiokafka requests a token for each new connection, in the thread of that connection.

Protocols and mechanisms: https://kafka.apache.org/documentation/#security
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import AuthenticationFailedError

from turnmill.credentials import cause, secret, trusting, variable
from turnmill.errors import CallerError
from turnmill.settings import BrokerSettings

Names = tuple[str, ...]
SASL_AUTHENTICATE: Final = 36  # the request that holds a password or token
ANSWER_TIMEOUT: Final = 10.0  # seconds, of a token endpoint
MAX_ANSWER_BYTES: Final = 1 << 20
REFRESH_AFTER: Final = 0.8  # of a token's lifetime; then a new token is requested
DEFAULT_LIFETIME: Final = 60.0  # seconds, if the endpoint does not say when the token expires


def client_options(settings: BrokerSettings) -> dict[str, Any]:
    """Return the arguments of any aiokafka client.

    Raises CallerError, which names each setting that is missing or would not be used. Secrets and certificates are read
    from their files now; a token file is read for each connection.
    """
    if problems := _missing(settings) + _idle(settings):
        raise CallerError("\n".join(problems))
    if settings.speaks_sasl:
        logging.getLogger("aiokafka.conn").addFilter(_without_logins)
    mechanism = settings.sasl_mechanism
    options: dict[str, Any] = {
        "bootstrap_servers": settings.broker_list,
        "security_protocol": settings.security_protocol,
        "ssl_context": _tls(settings) if settings.speaks_tls else None,
        "sasl_mechanism": mechanism or "PLAIN",
        "sasl_plain_username": None,
        "sasl_plain_password": None,
        "sasl_oauth_token_provider": None,
    }
    if mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = TokenProvider(_token_source(settings))
    elif mechanism is not None:
        options["sasl_plain_username"] = settings.sasl_username
        options["sasl_plain_password"] = secret(settings, "sasl_password")
    return options


def _without_logins(record: logging.LogRecord) -> bool:
    """Return True if a log line has no credentials: at DEBUG, aiokafka logs its requests, including passwords."""
    return not any(getattr(value, "API_KEY", None) == SASL_AUTHENTICATE for value in record.args or ())


def _missing(settings: BrokerSettings) -> list[str]:
    """Return a problem for each setting that another one requires and that is missing or set twice."""
    protocol, mechanism = settings.security_protocol, settings.sasl_mechanism
    needs: list[tuple[bool, str, Names]] = [
        (settings.speaks_sasl, f"{variable('security_protocol')}={protocol}", ("sasl_mechanism",)),
        (_by_password(settings), f"{variable('sasl_mechanism')}={mechanism}", ("sasl_username",)),
        (_by_password(settings), f"{variable('sasl_mechanism')}={mechanism}", ("sasl_password", "sasl_password_file")),
        (_by_token(settings), f"{variable('sasl_mechanism')}={mechanism}", ("oauth_token_file", "oauth_token_url")),
        (_asks_for_token(settings), variable("oauth_token_url"), ("oauth_client_id",)),
        (_asks_for_token(settings), variable("oauth_token_url"), ("oauth_client_secret", "oauth_client_secret_file")),
        (settings.ssl_key_file is not None, variable("ssl_key_file"), ("ssl_certificate_file",)),
        (settings.ssl_key_password is not None, variable("ssl_key_password"), ("ssl_certificate_file",)),
    ]
    problems = []
    for needed, why, names in needs:
        given = [name for name in names if getattr(settings, name) is not None]
        if needed and not given:
            problems.append(f"{why} needs {' or '.join(map(variable, names))}: set it")
        elif len(given) > 1:
            problems.append(f"{' and '.join(map(variable, given))} are both set: unset one")
    return problems


def _idle(settings: BrokerSettings) -> list[str]:
    """Return a problem for each setting that would not be used: who set it relies on a protection that isn't active."""
    uses: list[tuple[bool, str, Names]] = [
        (settings.speaks_tls or _asks_for_token(settings), "TLS (SSL or SASL_SSL)", ("ssl_ca_file",)),
        (settings.speaks_tls, "TLS (SSL or SASL_SSL)", ("ssl_certificate_file", "ssl_key_file", "ssl_key_password")),
        (settings.speaks_sasl, "SASL (SASL_SSL or SASL_PLAINTEXT)", ("sasl_mechanism",)),
        (_by_password(settings), "PLAIN and SCRAM", ("sasl_username", "sasl_password", "sasl_password_file")),
        (_by_token(settings), "OAUTHBEARER", ("oauth_token_file", "oauth_token_url")),
        (
            _asks_for_token(settings),
            variable("oauth_token_url"),
            ("oauth_client_id", "oauth_client_secret", "oauth_client_secret_file", "oauth_scope"),
        ),
    ]
    wire = f"{variable('security_protocol')}={settings.security_protocol}"
    if settings.sasl_mechanism is not None:
        wire += f", {variable('sasl_mechanism')}={settings.sasl_mechanism}"
    return [
        f"{variable(name)} is set and would not be used, as it is for {who} ({wire}): unset it, or change those"
        for used, who, names in uses
        for name in names
        if not used and getattr(settings, name) is not None
    ]


def _by_password(settings: BrokerSettings) -> bool:
    return settings.speaks_sasl and settings.sasl_mechanism not in (None, "OAUTHBEARER")


def _by_token(settings: BrokerSettings) -> bool:
    return settings.speaks_sasl and settings.sasl_mechanism == "OAUTHBEARER"


def _asks_for_token(settings: BrokerSettings) -> bool:
    return _by_token(settings) and settings.oauth_token_url is not None


def _tls(settings: BrokerSettings) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later; the broker's certificate and its name are always checked."""
    context = trusting(settings.ssl_ca_file)
    certificate, key, password = settings.ssl_certificate_file, settings.ssl_key_file, settings.ssl_key_password
    if certificate is None:
        return context
    # An empty password if none is set: with None, OpenSSL would ask for one on the terminal.
    passphrase = password.get_secret_value() if password else ""
    names = variable("ssl_certificate_file") + (f", {variable('ssl_key_file')}" if key else "")
    try:
        context.load_cert_chain(certificate, key, lambda: passphrase)
    except FileNotFoundError as error:
        raise CallerError(f"{names}: {key or certificate} or {certificate} is not there") from error
    except OSError as error:
        hint = f"one PEM certificate with its own private key, and {variable('ssl_key_password')} if that is encrypted"
        raise CallerError(f"{names}: {certificate} can't be used ({cause(error)}): {hint}, is expected") from error
    return context


def _token_source(settings: BrokerSettings) -> TokenFile | ClientCredentials:
    if settings.oauth_token_file is not None:
        return TokenFile(settings.oauth_token_file)
    assert settings.oauth_token_url is not None  # `_missing` has checked it
    assert settings.oauth_client_id is not None
    client_secret = secret(settings, "oauth_client_secret")
    assert client_secret is not None
    return ClientCredentials(
        settings.oauth_token_url,
        settings.oauth_client_id,
        client_secret,
        settings.oauth_scope,
        trusting(settings.ssl_ca_file) if settings.oauth_token_url.startswith("https:") else None,
    )


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
    tls: ssl.SSLContext | None
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
