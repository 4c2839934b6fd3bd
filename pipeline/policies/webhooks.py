"""Webhooks as values: which events they receive, and how these are written and signed. Pure.

The signature is that of Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks (spec of 2024).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from pipeline.policies.entries import entries, name_of, same_name
from topics import json_text
from topics.notice import (
    ALERT_ENDED,
    ALERT_STARTED,
    AUDIT_RECORDED,
    BUDGET_REACHED,
    CLOCK_AHEAD,
    COMMAND_UNANSWERED,
    THREAD_DELETED,
)
from topics.thread_key import ThreadKey

TURN_COMPLETED: Final = "turn.completed"
TURN_INTERRUPTED: Final = "turn.interrupted"
FEEDBACK_GIVEN: Final = "feedback.given"
DEFAULT: Final = (
    *(TURN_COMPLETED, TURN_INTERRUPTED, THREAD_DELETED, BUDGET_REACHED, COMMAND_UNANSWERED, FEEDBACK_GIVEN),
    *(CLOCK_AHEAD, ALERT_STARTED, ALERT_ENDED),
)
EVENTS: Final = (*DEFAULT, AUDIT_RECORDED)  # the last only on request, since it reports what people do
STANDARD: Final = "standard"
SLACK: Final = "slack"
MAX_SLACK_CHARACTERS: Final = 3_000
SECRET_PREFIX: Final = "whsec_"  # noqa: S105  # the prefix of secrets, no secret itself
SECRET_BYTES: Final = (24, 64)  # the bounds in the specification
MAX_SECRETS: Final = 2  # the newest first; deliveries are signed with both during a rotation
MAX_URL_CHARACTERS: Final = 2000
SETTING: Final = "setting:"  # the prefix of ids of webhooks from the setting
NAT64: Final = ip_network("64:ff9b::/96")
SITE_LOCAL: Final = ip_network("fec0::/10")  # deprecated, but still routed inside of some networks
ISATAP: Final = (0x00005EFE, 0x02005EFE)  # before the IPv4 address, in the lower half (RFC 5214)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address and the events that it receives.

    `tenant`: only its events are delivered, "": only those without a tenant, None: all. `secrets`: whole keys, as
    receivers have them; they are not in its `repr`. `form`: of FORMS, in which bodies are sent.
    """

    id: str
    url: str
    events: tuple[str, ...]
    tenant: str | None
    secrets: tuple[str, ...]
    created_at: int = 0  # epoch ms
    form: str = STANDARD

    def __repr__(self) -> str:
        return f"Webhook({self.id!r}, {self.host!r})"

    @property
    def host(self) -> str:
        """The host of the address, for logs: path and query may contain a secret of the receiver."""
        return urlsplit(self.url).hostname or ""

    @property
    def owner(self) -> str:
        """The owner of the share of slots for its deliveries: its tenant, or itself if it is an operator's webhook."""
        return self.id if self.tenant is None or self.id.startswith(SETTING) else self.tenant

    def hears(self, event: Event) -> bool:
        """Return True if the webhook receives an event."""
        return event.type in self.events and self.tenant in (None, event.tenant or "")


@dataclass(frozen=True, slots=True)
class Event:
    """An event for webhooks.

    `lane`: the hash of its thread; deliveries of one lane are in order. `at`: epoch ms. `place`: topic, partition and
    offset of the record that it comes from. `thread`: the thread of its turn, with which it is erased.
    """

    id: str
    type: str
    tenant: str | None
    lane: str
    at: int
    payload: bytes
    place: tuple[str, int, int]
    thread: ThreadKey | None = None


def lane_of(tenant: str | None, of: str) -> str:
    """Return the lane of a thread, or a budget, as a hash.

    It is a hash since a tenant's name may contain NUL and lone surrogates, which database columns can't.
    """
    return hashlib.sha256(f"{tenant or ''}\n{of}".encode("utf-8", "backslashreplace")).hexdigest()[:32]


def signature(secrets: Sequence[str], webhook_id: str, timestamp: int, body: bytes) -> str:
    """Return the header webhook-signature: one `v1,…` for each secret. `timestamp` in epoch seconds."""
    signed = b"%s.%d.%s" % (webhook_id.encode(), timestamp, body)
    digests = [hmac.new(key_of(secret), signed, hashlib.sha256).digest() for secret in secrets]
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def key_of(secret: str) -> bytes:
    """Return the bytes of the key in `whsec_…`. Raises ValueError."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not SECRET_BYTES[0] <= len(key) <= SECRET_BYTES[1]:
        raise ValueError("a secret is whsec_ and the base64 of 24 to 64 random bytes")
    return key


def secret_of(key: bytes) -> str:
    """Return the bytes of a key as `whsec_…`."""
    return SECRET_PREFIX + base64.b64encode(key).decode()


def checked_url(url: str) -> str:
    """Return the same URL. Raises ValueError, which says what is wrong without showing the URL's path."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise ValueError("https://host[:port]/path is expected")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("a user, a password and a fragment have no place in the URL of a webhook")
    if len(url) > MAX_URL_CHARACTERS or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"at most {MAX_URL_CHARACTERS:,} characters of ASCII, without spaces, are expected")
    return url


def checked_events(events: Sequence[str] | None) -> tuple[str, ...]:
    """Return the events, or DEFAULT for None. Raises ValueError for an unknown event."""
    unknown = [name for name in events or () if name not in EVENTS]
    if unknown or events == []:
        raise ValueError(
            f"no such event: {', '.join(map(repr, unknown)) or 'none given'}; there are {', '.join(EVENTS)}"
        )
    return tuple(dict.fromkeys(events or DEFAULT))


def parse(text: str) -> tuple[Webhook, ...]:
    """Return the webhooks of a JSON list of {"name", "url", "secret" or "secrets", "events"?, "tenant"?, "form"?}.

    Raises ValueError, which names the wrong entry, and shows no secret.
    """
    return entries(text, _webhook, lambda webhook: same_name(webhook.id.removeprefix(SETTING)))


def _webhook(row: Any) -> Webhook:
    known = {"name", "url", "secret", "secrets", "events", "tenant", "form"}
    if not isinstance(row, dict) or row.keys() - known:
        raise ValueError(f"an object with {', '.join(sorted(known))} is expected")
    name, url = name_of(row), row.get("url")
    if type(url) is not str:
        raise ValueError("'url' is missing")
    form = row.get("form", STANDARD)
    if type(form) is not str or form not in FORMS:
        raise ValueError(f"'form' is {' or '.join(FORMS)}")
    secrets = row.get("secrets", [row["secret"]] if "secret" in row else [])
    least = 1 if form == STANDARD else 0
    if not isinstance(secrets, list) or not least <= len(secrets) <= MAX_SECRETS:
        raise ValueError("'secret', or 'secrets' with one or two of them, is missing")
    for secret in secrets:
        key_of(str(secret))
    tenant = row.get("tenant")
    if type(tenant) not in (str, type(None)) or type(row.get("events")) not in (list, type(None)):
        raise ValueError("'tenant' is a string, 'events' a list")
    events = checked_events(row.get("events"))
    return Webhook(f"{SETTING}{name}", checked_url(url), events, tenant, tuple(secrets), form=form)


def networks(text: str) -> tuple[Network, ...]:
    """Return the networks of a text such as `10.0.0.0/8,::1`. Raises ValueError."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def reachable(address: str, scheme: str, allowed: Sequence[Network]) -> bool:
    """Return True if a webhook may be delivered to an IP address.

    To a public address only by https, to one of `allowed` also by http. Loopback, private, link-local (as of clouds'
    metadata), shared, reserved and multicast addresses are not public; nor is an IPv6 address that embeds such an IPv4
    address.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = _carried(ip)
    if any(host.version == network.version and host in network for host in (ip, *inner) for network in allowed):
        return True
    return (
        scheme == "https"
        and ip not in SITE_LOCAL
        and all(host.is_global and not host.is_multicast and not host.is_reserved for host in inner or (ip,))
    )


def _carried(ip: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that are embedded in an IPv6 address."""
    if isinstance(ip, IPv4Address):
        return ()
    if ip.ipv4_mapped is not None:
        return (ip.ipv4_mapped,)
    if ip.teredo is not None:
        return ip.teredo
    if ip in NAT64 or int(ip) >> 32 == 0:  # the second: "IPv4-compatible", long deprecated
        return (IPv4Address(int(ip) & 0xFFFFFFFF),)
    if ip.sixtofour is not None:
        return (ip.sixtofour,)
    return (IPv4Address(int(ip) & 0xFFFFFFFF),) if int(ip) >> 32 & 0xFFFFFFFF in ISATAP else ()


def body(kind: str, at_iso: str, data: Mapping[str, Any]) -> bytes:
    """Return the JSON of an event in the specification's form."""
    return orjson.dumps({"type": kind, "timestamp": at_iso, "data": data})


def slack_body(standard: bytes) -> bytes:
    """Return an event's body as a message to Slack: its type, and its data as one line of text."""
    event = json_text.loads(standard.decode())
    text = f"{event['type']}: {', '.join(_said(event['data']))}"[:MAX_SLACK_CHARACTERS]
    return orjson.dumps({"text": html.escape(text, quote=False)})  # as Slack wants it, so no `<!channel>` calls anybody


def _said(data: Mapping[str, Any]) -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, dict) and name != "turn":
            yield from _said(value)
        elif isinstance(value, str | int | float):
            yield f"{name} {value}"


FORMS: Final[dict[str, Callable[[bytes], bytes]]] = {STANDARD: bytes, SLACK: slack_body}
