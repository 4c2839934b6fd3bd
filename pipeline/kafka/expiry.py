"""The expiry times of certificates: the brokers' and our own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from turnmill.kafka.client import client_options
from turnmill.kafka.probe import host_port
from turnmill.settings import BrokerSettings

REQUEST_TIMEOUT: Final = 5.0  # seconds


async def expiries(settings: BrokerSettings, addresses: Sequence[str]) -> dict[str, datetime]:
    """Return {broker's address or setting: expiry of its certificate} for brokers that answer; empty without TLS.

    Raises CallerError as `client_options` does.
    """
    tls: ssl.SSLContext | None = client_options(settings)["ssl_context"]
    if tls is None:
        return {}
    ends = await asyncio.gather(*(_end(address, tls) for address in addresses))
    found = {address: end for address, end in zip(addresses, ends, strict=True) if end is not None}
    if settings.ssl_certificate_file is not None:
        found["TURNMILL_SSL_CERTIFICATE_FILE"] = _first_end(settings.ssl_certificate_file)
    return found


async def _end(address: str, tls: ssl.SSLContext) -> datetime | None:
    host, port = host_port(address)
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
    except (OSError, TimeoutError):  # other checks report the reason
        return None
    try:
        not_after = writer.get_extra_info("peercert")["notAfter"]
        return datetime.fromtimestamp(ssl.cert_time_to_seconds(not_after), UTC)
    finally:
        writer.close()


def _first_end(file: Path) -> datetime:
    """Return the earliest expiry of the certificates in a file, since the chain needs each of them."""
    certificates = x509.load_pem_x509_certificates(file.read_bytes())
    return min(certificate.not_valid_after_utc for certificate in certificates)
