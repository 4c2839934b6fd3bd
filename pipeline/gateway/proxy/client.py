"""The connections to upstreams: one pool for the gateway; and requests on them that are not published.

aiohttp rather than httpx: the gateway has it anyway, and it takes a third of the CPU for a stream, and a sixth for a
short answer (docs/performance.md). Nothing is followed, decoded, kept or added: no redirect, no compression, no cookie,
no `.netrc`.
"""

from typing import Final

import aiohttp
from aiohttp import hdrs

from turnmill.capture.passing import CapturedCall

CONNECT_TIMEOUT = 10.0  # seconds, with TLS
IDLE_TIMEOUT = 15.0  # seconds for which an unused connection is kept: less than servers do
HEADER_BYTES = 65_536  # of one header of an answer
MAX_HEADERS = 256

# Headers that aiohttp would add by itself.
NOT_ADDED = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.USER_AGENT, hdrs.CONTENT_TYPE)


class NotFollowed:
    """A request that is passed on and not published, with the methods of a CapturedCall."""

    ended: Final = True
    dialect: Final = ""
    stop: Final = None

    def answered(self, *_: object) -> None:
        """Nothing."""

    data = finished = failed = cancelled = stopped = answered


NOT_FOLLOWED: Final = NotFollowed()
Followed = CapturedCall | NotFollowed


def session(*, trust_env: bool = False) -> aiohttp.ClientSession:
    """Return the pool. `trust_env`: use the proxies that environment variables name."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_TIMEOUT, ttl_dns_cache=30),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=NOT_ADDED,
        auto_decompress=False,
        trust_env=trust_env,
        requote_redirect_url=False,
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
        max_headers=MAX_HEADERS,
    )


def reason(error: BaseException) -> str:
    """Return why an upstream gave no answer, in the gateway's words: the library's may contain a URL with a key."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return "it could not be connected to in time"
        case aiohttp.ClientConnectorDNSError():
            return "its name can't be resolved"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "its certificate can't be trusted, or TLS failed"
        case aiohttp.ClientConnectorError():
            return "it refuses connections, or can't be reached"
        case aiohttp.ServerDisconnectedError() | ConnectionError() | aiohttp.ClientOSError():
            return "it closed the connection"
        case TimeoutError():
            return "it said nothing for too long"
        case aiohttp.ClientPayloadError():
            return "its answer broke off"
        case aiohttp.ClientResponseError():
            return "its answer is no HTTP"
    return f"the request failed ({type(error).__name__})"
