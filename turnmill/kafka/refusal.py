"""Find out why brokers refuse us, and what to change: the client library only raises "unable to bootstrap".

Apache Kafka 4 just closes the connection for some wrong protocols; what is concluded from that here was observed.
"""

import ssl
from asyncio import IncompleteReadError
from collections.abc import Iterator
from typing import Any, Final

from aiokafka import errors
from aiokafka.conn import create_conn
from aiokafka.protocol.metadata import MetadataRequest

from turnmill.addresses import host_port
from turnmill.errors import CallerError
from turnmill.kafka.client import client_options
from turnmill.settings import BrokerSettings

ANSWER_TIMEOUT: Final = 5.0  # seconds
TLS_ALERT: Final = 0x1503  # the first bytes of a TLS alert, which a Kafka client takes for the length of a response
# X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH, X509_V_ERR_CERT_HAS_EXPIRED
OTHER_NAME: Final = (62, 64)
EXPIRED: Final = 10
PROTOCOL: Final = "TURNMILL_SECURITY_PROTOCOL"
# Kafka's APIs without which there are no agents, workers or gateways, by their keys: docs/operations/brokers.md
NEEDED: Final = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch",
    10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat", 14: "SyncGroup", 22: "InitProducerId",
}  # fmt: skip


async def refusal(settings: BrokerSettings) -> CallerError | None:
    """Connect to each bootstrap address, then to each broker that it names. Return what to change; None if not known.

    Raises CallerError if the settings contradict each other.
    """
    options = client_options(settings)
    asked: list[str] = []
    left = [str(address) for address in options.pop("bootstrap_servers")]
    while left:
        address = left.pop(0)
        asked.append(address)
        try:
            left += [other for other in await _brokers(address, options) if other not in asked + left]
        except (errors.KafkaError, OSError, TimeoutError, _NoMetadata) as error:
            if reason := _reason(settings, address, error):
                return CallerError(reason)
    return None


class _NoMetadata(Exception):
    """The broker's metadata names no brokers. This happens if aiokafka mistakes a refused token for an accepted one."""


async def _brokers(address: str, options: dict[str, Any]) -> list[str]:
    """Return host:port of each broker of the cluster, by a connection just for this."""
    host, port = host_port(address)
    connection = await create_conn(host, port, request_timeout_ms=int(ANSWER_TIMEOUT * 1000), **options)
    try:
        if lacking := [name for key, name in NEEDED.items() if key not in connection._versions]:  # noqa: SLF001  # has no name
            raise errors.IncompatibleBrokerVersion(", ".join(lacking))
        metadata = await connection.send(MetadataRequest([]))
        if not metadata.brokers:
            raise _NoMetadata
        return [f"{row[1]}:{row[2]}" for row in metadata.brokers]
    finally:
        connection.close()


def _reason(settings: BrokerSettings, address: str, error: BaseException) -> str | None:
    causes = list(_chain(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _untrusted(address, cause)
        if isinstance(cause, ssl.SSLError | ConnectionResetError) and settings.speaks_tls:
            return _tls_refused(settings, address, cause)
    if isinstance(error, errors.AuthenticationFailedError):  # raised by our token providers, with the reason
        source = "OAUTH_TOKEN_FILE" if settings.oauth_token_file else "OAUTH_TOKEN_URL and _OAUTH_CLIENT_SECRET"
        return f"no token for {address}: {error.args[0]}; see TURNMILL_{source}"
    if isinstance(error, errors.SaslAuthenticationFailed | _NoMetadata):
        return _login_refused(settings, address, error)
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        return f"{address} does not offer {settings.sasl_mechanism}: set TURNMILL_SASL_MECHANISM; {error.args[0]}"
    if isinstance(error, errors.IllegalSaslStateError):
        fitting = "SSL" if settings.speaks_tls else "PLAINTEXT"
        return f"{address} takes no logins: set {PROTOCOL}={fitting}, or TURNMILL_BROKERS to a listener with SASL"
    if isinstance(error, errors.IncompatibleBrokerVersion):
        return f"{address} offers no {error.args[0]}, APIs of Kafka that Turnmill can't work without"
    if isinstance(error, errors.KafkaConnectionError):
        return _closed(settings, address, causes)
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _untrusted(address: str, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in OTHER_NAME:
        return (
            f"the certificate of {address} is for another name ({error.verify_message}): set TURNMILL_BROKERS and "
            "the brokers' advertised.listeners to names that it is for"
        )
    if error.verify_code == EXPIRED:
        return f"the certificate of {address}, or of an authority behind it, has expired: renew it"
    return (
        f"the certificate of {address} is not trusted ({error.verify_message}): set TURNMILL_SSL_CA_FILE to the PEM "
        "file of the authority that signed it"
    )


def _tls_refused(settings: BrokerSettings, address: str, error: BaseException) -> str:
    text = str(error).upper()
    if "CERTIFICATE" in text and "ALERT" in text:
        if settings.ssl_certificate_file is None:
            return f"{address} asks for a certificate of ours: set TURNMILL_SSL_CERTIFICATE_FILE and _SSL_KEY_FILE"
        return (
            f"{address} does not accept our certificate ({_words(error)}): set TURNMILL_SSL_CERTIFICATE_FILE to one "
            "that its authorities have signed, and that has not expired"
        )
    return (
        f"{address} does not speak TLS with us ({_words(error)}): is {PROTOCOL}={settings.security_protocol} right for "
        "this port, or is that PLAINTEXT or SASL_PLAINTEXT?"
    )


def _words(error: BaseException) -> str:
    return str(getattr(error, "reason", None) or str(error) or "connection reset").replace("_", " ").lower()


def _login_refused(settings: BrokerSettings, address: str, error: BaseException) -> str:
    if settings.sasl_mechanism == "OAUTHBEARER":
        source = "OAUTH_TOKEN_FILE" if settings.oauth_token_file else "OAUTH_CLIENT_ID and its scope"
        return (
            f"{address} does not accept our token: is it expired, signed by another issuer, or for another audience? "
            f"See TURNMILL_{source}"
        )
    words = str(error.args[0]) if error.args else "it does not say why"
    return (
        f"{address} refuses the login of {settings.sasl_username} ({words}): check TURNMILL_SASL_USERNAME and "
        "TURNMILL_SASL_PASSWORD"
    )


def _closed(settings: BrokerSettings, address: str, causes: list[BaseException]) -> str | None:
    """Return why the broker closed the connection, concluded from the number of bytes expected and received."""
    read = next((cause for cause in causes if isinstance(cause, IncompleteReadError)), None)
    if read is None:
        return None
    if (read.expected or 0) >> 16 == TLS_ALERT:
        fitting = "SASL_SSL" if settings.speaks_sasl else "SSL (or SASL_SSL)"
        return f"{address} speaks TLS, and {PROTOCOL} is {settings.security_protocol}: set it to {fitting}"
    if not read.partial and not settings.speaks_sasl:
        fitting = "SASL_SSL" if settings.speaks_tls else "SASL_PLAINTEXT"
        return (
            f"{address} closes the connection when asked without a login: set {PROTOCOL}={fitting}, "
            "TURNMILL_SASL_MECHANISM, and the user or token"
        )
    return None
