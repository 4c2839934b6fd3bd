"""One call of a gateway's API, with the token and the certificates of the settings."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from turnmill.addresses import unreachable
from turnmill.errors import BrokerError, CallerError
from turnmill.extras import HTTP, install

if TYPE_CHECKING:
    import httpx

    from turnmill.settings import ClientSettings

ANSWER_TIMEOUT: Final = 30.0  # seconds for an answer
EXCERPT_CHARACTERS: Final = 300  # that a message shows of an answer that isn't a gateway's


def library() -> Any:
    """Return httpx, or else httpx2, which SDKs bring in its place. Raises CallerError where neither is installed."""
    for name in ("httpx", "httpx2"):
        with suppress(ModuleNotFoundError):
            return import_module(name)
    raise CallerError(f"TURNMILL_PUBLISH_URL needs httpx: {install(HTTP)}")


def client(settings: ClientSettings, timeout: Any, *, by_proxies: bool = False) -> httpx.AsyncClient:
    """Return a client for the gateway of TURNMILL_PUBLISH_URL, if need be by the proxies of the environment.

    Raises CallerError for settings that can't be read.
    """
    from turnmill.credentials import secret, trusting  # noqa: PLC0415  # it loads pydantic

    token = secret(settings, "publish_token")
    secure = str(settings.publish_url).startswith("https:")  # certificates are loaded only for TLS: it takes a while
    made: httpx.AsyncClient = library().AsyncClient(
        headers={} if token is None else {"Authorization": f"Bearer {token}"},
        timeout=timeout,
        verify=trusting(settings.ssl_ca_file) if secure else by_proxies,
        trust_env=by_proxies,
    )
    return made


async def call(settings: ClientSettings, method: str, path: str, *names: str, json: Any = None) -> dict[str, Any]:
    """Return the answer of the gateway of TURNMILL_PUBLISH_URL. `names`: values for the placeholders in `path`.

    Raises CallerError if it refuses the call, BrokerError if it does not answer.
    """
    url = f"{settings.publish_url}{path.format(*(quote(name, safe='') for name in names))}"
    try:
        async with client(settings, ANSWER_TIMEOUT) as http:
            answer = await http.request(method, url, json=json)
    except library().HTTPError as error:
        parts = urlsplit(str(settings.publish_url))
        address = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        why = await asyncio.to_thread(unreachable, address) or str(error) or f"no answer within {ANSWER_TIMEOUT:g} s"
        raise BrokerError(f"{settings.publish_url} does not answer: {why}") from None
    if answer.is_success:
        body: dict[str, Any] = answer.json()
        return body
    wrong = BrokerError if answer.is_server_error else CallerError
    raise wrong(f"{answer.status_code} {detail_of(answer)}")


def detail_of(answer: httpx.Response) -> str:
    """Return the `detail` of a gateway's error response, or the beginning of any other response."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return repr(answer.text[:EXCERPT_CHARACTERS])
