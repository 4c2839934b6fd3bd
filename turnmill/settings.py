"""The options of the client, which runs in an agent's process, in a frozen class.

Each field is the variable TURNMILL_<NAME>, which `turnmill.environment` reads. The pipeline's options
(`pipeline.settings`) extend this class.
"""

import re
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from turnmill.labels import parsed
from turnmill.pools import SPOOLED

PREFIX: Final = "TURNMILL_"

Count = Annotated[int, Field(ge=1)]


def _brokers(value: str) -> str:
    for address in value.split(","):
        host, _, port = address.strip().rpartition(":")
        if "/" in host or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"host:port[,host:port] is expected{', without a scheme' if '//' in address else ''}")
    return ",".join(address.strip() for address in value.split(","))


def _gateway(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme in ("http", "https") and parts.hostname and not (parts.username or parts.query or parts.fragment):
        return value.rstrip("/")
    lacks = "" if "://" in value else ", with http:// or https:// before it"
    raise ValueError(f"https://host[:port][/path] is expected, the address of a gateway, without a token in it{lacks}")


def _token_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme in ("http", "https") and parts.hostname and not parts.username:
        return value
    raise ValueError("https://host/path is expected, without a user or a password in it")


def _hosts(value: str) -> str:
    more_hosts(value)
    return value


def more_hosts(setting: str) -> dict[str, str]:
    """Parse `host[:port][=provider],…` to {host[:port]: provider}; the host is the default. Raises ValueError."""
    hosts = {}
    for entry in filter(None, (piece.strip() for piece in setting.split(","))):
        address, _, provider = (piece.strip() for piece in entry.partition("="))
        host, _, port = address.partition(":")
        if not re.fullmatch(r"[A-Za-z0-9._-]+", host) or (":" in address and not port.isdigit()):
            raise ValueError(f"a host is expected, host[:port][=provider], not {entry!r:.80}")
        hosts[address.lower()] = provider or host.lower()
    return hosts


def _labels(value: str) -> str:
    parsed(value)
    return value


class BrokerSettings(BaseModel):
    """How to reach the brokers, and how our topics are named there: all that a Kafka client needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    brokers: Annotated[str, AfterValidator(_brokers)] = Field(
        "127.0.0.1:9092", description="Kafka bootstrap addresses, host:port,…; `turnmill up` listens on the first."
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT",
        description="The protocol of the brokers: `PLAINTEXT`, `SSL` (TLS), `SASL_SSL` (TLS and a login), or "
        "`SASL_PLAINTEXT` (a login that others on the network can read).",
    )
    ssl_ca_file: Path | None = Field(
        None,
        description="PEM file of the certificate authorities to trust for brokers, or the gateway; by default those "
        "that the system trusts.",
    )
    ssl_certificate_file: Path | None = Field(
        None, description="PEM file of our own certificate, for brokers that ask for one (mutual TLS)."
    )
    ssl_key_file: Path | None = Field(None, description="PEM file of its private key, if that is not in the same file.")
    ssl_key_password: SecretStr | None = Field(None, description="The private key's password, if it has one.")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = Field(
        None, description="How to log in to the brokers: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`."
    )
    sasl_username: str | None = Field(None, description="The user, for `PLAIN` and `SCRAM`.")
    sasl_password: SecretStr | None = Field(None, description="The user's password.")
    sasl_password_file: Path | None = Field(None, description="File that holds the user's password instead.")
    oauth_token_file: Path | None = Field(
        None,
        description="For `OAUTHBEARER`: file that holds a token; read for each connection, since tokens are renewed.",
    )
    oauth_token_url: Annotated[str, AfterValidator(_token_url)] | None = Field(
        None, description="For `OAUTHBEARER`: endpoint that returns tokens for client credentials, `https://…`."
    )
    oauth_client_id: str | None = Field(None, description="The client's id at the token endpoint.")
    oauth_client_secret: SecretStr | None = Field(None, description="The client's secret at the token endpoint.")
    oauth_client_secret_file: Path | None = Field(None, description="File that holds the client's secret instead.")
    oauth_scope: str | None = Field(None, description="The scope to request, if the endpoint requires one.")
    topic_prefix: str = Field(
        "turnmill",
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="Topics are named PREFIX.events, PREFIX.turns, …; consumer groups likewise.",
    )

    @property
    def broker_list(self) -> list[str]:
        """The bootstrap addresses, a string each."""
        return self.brokers.split(",")

    @property
    def speaks_tls(self) -> bool:
        """True if the brokers are reached over TLS."""
        return self.security_protocol.endswith("SSL")

    @property
    def speaks_sasl(self) -> bool:
        """True if we log in to the brokers."""
        return self.security_protocol.startswith("SASL")


class ClientSettings(BrokerSettings):
    """The settings of a client: how to reach the brokers or a gateway, and where to spool; sizes in bytes."""

    publish_url: Annotated[str, AfterValidator(_gateway)] | None = Field(
        None,
        description="Address of a gateway, `https://…`: publishers send to it over HTTP, instead of to the brokers.",
    )
    publish_token: SecretStr | None = Field(None, description="The token for the gateway of TURNMILL_PUBLISH_URL.")
    publish_token_file: Path | None = Field(
        None, description="File that holds that token instead; read for each connection, since tokens are renewed."
    )
    home: Path = Field(
        Path(".turnmill"),
        description="Folder for the development broker's data, the SQLite file, the spool and logs; also "
        "for the records of a large run while a worker builds it.",
    )
    spool: Path | None = Field(
        None,
        description="Folder where publishers keep what the broker can't take now; by default `spool` in TURNMILL_HOME.",
    )
    spool_bytes: Count = Field(SPOOLED.size, description="Most bytes that one publisher keeps in the spool.")
    spool_policy: Literal["block", "drop"] = Field(
        "block",
        description="What happens when the spool is full, too: `block` lets the agent wait, `drop` drops new records "
        "and counts them.",
    )
    capture_hosts: Annotated[str, AfterValidator(_hosts)] = Field(
        "",
        description="Hosts whose model calls are captured in addition to those of the known providers: "
        "`host[:port][=provider],…`.",
    )
    capture_agent: str | None = Field(
        None, description="The agent id of captured calls; by default the name of the program."
    )
    labels: Annotated[str, AfterValidator(_labels)] = Field(
        "",
        description="Labels of all runs that say nothing else: `environment=production,project=shop,tag=beta`; also "
        "`user` and `branch`.",
    )
    control: bool = Field(
        True,
        description="Whether runs can be stopped, steered and answered by commands: publishers read the topic "
        "`control`, or a gateway's stream, and gateways accept commands.",
    )
    compression: Literal["none", "gzip", "lz4", "zstd"] = Field("zstd", description="Compression of produced records.")

    @property
    def spool_folder(self) -> Path:
        """The publishers' spool, the default filled in."""
        return self.spool or self.home / "spool"

    @property
    def captured_hosts(self) -> dict[str, str]:
        """The hosts of `capture_hosts`, as {host[:port]: provider}."""
        return more_hosts(self.capture_hosts)

    @property
    def address(self) -> str:
        """The address that publishers send to, as messages name it: the gateway, or the brokers."""
        return self.publish_url or self.brokers


def without_password(url: str) -> str:
    """Return a URL with its secrets masked, even if characters of the password make the URL invalid."""
    url = re.sub(r"(?i)([?&][^=&]*(?:password|token|secret|sig)[^=&]*=)[^&]*", r"\1***", url)
    return re.sub(r"(://[^:/?#@]*):.*@", r"\1:***@", url)
