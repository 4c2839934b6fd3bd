"""An attempt to deliver an event, over HTTP, to an address that is checked.

A webhook's URL is a user's input, and must not reach our own network. So the name is resolved once, each of its
addresses is checked, and the connection goes to a checked one, even if the name resolves differently by then. No
redirect is followed, no proxy of the environment is used, and of the answer only the status is read.

Names are resolved in separate threads, of which each owner of webhooks has a share: a look-up can't be cancelled, and
one that never ends must delay neither other owners nor the connections to the broker and the store.
"""

import asyncio
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from pipeline.policies.pools import LOOKUPS
from pipeline.policies.slots import Slots
from pipeline.policies.webhooks import Network, Webhook, reachable, signature

ATTEMPT_TIMEOUT: Final = 15.0  # seconds for a whole attempt
CONNECT_TIMEOUT: Final = 5.0
GONE: Final = 410


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt: accepted; or else why not, without the URL's path, and whether to stop retrying."""

    taken: bool
    why: str = ""
    final: bool = False


class Checked(AbstractResolver):
    """Returns the checked addresses, whatever the name resolves to by now."""

    def __init__(self, addresses: Sequence[tuple[int, str]], port: int) -> None:
        self._addresses = addresses
        self._port = port

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host=address, port=self._port, family=kind, proto=0, flags=socket.AI_NUMERICHOST
            )
            for kind, address in self._addresses
        ]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends to public addresses, and to those of `allowed`. `lookups`: the threads that resolve names."""

    allowed: Sequence[Network]
    lookups: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, LOOKUPS.size, "look-up"))
    slots: Slots = field(default_factory=partial(Slots, LOOKUPS.size))

    async def send(self, webhook: Webhook, event_id: str, body: bytes) -> Outcome:
        """Make an attempt. Raises nothing but cancellation."""
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT):
                return await self._send(webhook, event_id, body)
        except TimeoutError:
            return Outcome(taken=False, why=f"no answer within {ATTEMPT_TIMEOUT:.0f} s")
        except _Refused as error:
            return Outcome(taken=False, why=str(error))
        except (aiohttp.ClientError, OSError, ValueError) as error:  # their messages may contain the URL
            return Outcome(taken=False, why=type(error).__name__)

    async def _send(self, webhook: Webhook, event_id: str, body: bytes) -> Outcome:
        parts = urlsplit(webhook.url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        addresses = await self._addresses(webhook.owner, host, port)
        wrong = [address for _, address in addresses if not reachable(address, parts.scheme, self.allowed)]
        if wrong or not addresses:
            raise _Refused(f"{host} has an address that {parts.scheme} webhooks are not delivered to")
        connector = aiohttp.TCPConnector(resolver=Checked(addresses, port), use_dns_cache=False, force_close=True)
        timeout = aiohttp.ClientTimeout(total=ATTEMPT_TIMEOUT, sock_connect=CONNECT_TIMEOUT)
        options: dict[str, Any] = {"connector": connector, "timeout": timeout, "cookie_jar": aiohttp.DummyCookieJar()}
        now = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Turnmill",
            "webhook-id": event_id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(webhook.secrets, event_id, now, body),
        }
        async with (
            aiohttp.ClientSession(**options, trust_env=False, auto_decompress=False) as session,
            session.post(webhook.url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            status = answer.status
            answer.close()  # don't read its body, which may be long
        taken = 200 <= status < 300
        return Outcome(taken, "" if taken else f"status {status}", final=status == GONE)

    async def _addresses(self, owner: str, host: str, port: int) -> list[tuple[int, str]]:
        """Return a name's addresses.

        The slot is held until its thread is free again, even if nobody waits for it any more.
        """
        await self.slots.take(owner)
        look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        looking = asyncio.get_running_loop().run_in_executor(self.lookups, look)
        looking.add_done_callback(lambda _: self.slots.give(owner))
        infos = await asyncio.shield(looking)
        families = (socket.AF_INET, socket.AF_INET6)
        return [(family, str(address[0])) for family, _, _, _, address in infos if family in families]


class _Refused(Exception):
    """An address to which webhooks are not delivered."""
