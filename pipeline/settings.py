"""All options, in one frozen class: those of the client (`turnmill.settings`), and those of the pipeline.

Nothing else reads the environment. Each field is the variable TURNMILL_<NAME>. A name that is not here, or a bad
value, is an error at start.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from pipeline.policies import alerts, budgets, prices, sign_in, webhooks
from pipeline.policies.alerts import Alert
from pipeline.policies.budgets import Budget, Enforce
from pipeline.policies.local_callers import LOOPBACK
from pipeline.policies.prices import Prices
from pipeline.policies.retention import Retention
from pipeline.policies.webhooks import Webhook
from topics.catalog import CATALOG
from turnmill.environment import read, unknown
from turnmill.settings import PREFIX, ClientSettings, Count, without_password

INLINE = "inline"  # TURNMILL_CONTENT: large values stay in their turns

HOST: Final = r"(?:\[[^\]/]+\]|[^\[\]:,/?#@]*)(?::[0-9]{1,5})?"
OBJECTS: Final = "file:///folder, s3://bucket/prefix, gs://bucket/prefix, azure://container/prefix"
LAKE: Final = "iceberg+"  # before the address of an archive of tables
POSTGRES: Final = re.compile(rf"postgres(?:ql)?://(?:[^/?#]*@)?{HOST}(?:,{HOST})*/[^/?#].*")


def _store(value: str) -> str:
    if value.startswith("sqlite:///") and len(value) > len("sqlite:///"):
        return value
    if POSTGRES.fullmatch(value):
        return value
    raise ValueError(
        "sqlite:///path or postgresql://user:password@host:port/database is expected, with / ? # in a password as %2F "
        "%3F %23"
    )


def _content(value: str) -> str:
    if value == INLINE or _holds_objects(value):
        return value
    raise ValueError(f"{OBJECTS} or inline is expected")


def _archive(value: str) -> str:
    if _holds_objects(value.removeprefix(LAKE)) and not value.startswith(f"{LAKE}azure:"):
        return value
    raise ValueError(f"{OBJECTS}, or, with {LAKE} before it, the first three, is expected")


def _catalog(value: str) -> str:
    if value.startswith("sqlite:///") and len(value) > len("sqlite:///"):
        return value
    parts = urlsplit(value)
    if parts.scheme in ("http", "https") and parts.hostname and not (parts.username or parts.query):
        return value
    raise ValueError(
        "https://host/path of an Iceberg REST catalog, without a login in it, or sqlite:///path, is expected"
    )


def _retention(value: str) -> str:
    names = [topic.name for topic in CATALOG]
    parts = [part.strip() for part in value.split(",")]
    for part in parts:
        name, _, seconds = part.partition("=")
        if name not in names or not seconds.isdecimal() or not 0 < int(seconds) < 10**12:
            raise ValueError(f"TOPIC=SECONDS,… is expected, TOPIC one of {', '.join(names)}")
    return ",".join(parts)


def _store_retention(value: str) -> str:
    try:
        Retention.parse(value)
    except ValueError as error:
        raise ValueError(f"90d, or 90d,TENANT=30d,TENANT=forever is expected: {error}") from None
    return value


def _webhooks(value: SecretStr) -> SecretStr:
    webhooks.parse(_text_or_file(value.get_secret_value()))
    return value


def _alerts(value: str) -> str:
    alerts.parse(_text_or_file(value))
    return value


def _budgets(value: str) -> str:
    budgets.parse(_text_or_file(value))
    return value


def _prices(value: str) -> str:
    prices.parse(_text_or_file(value))
    return value


def _oidc(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text.startswith(("https://", "http://")):
        sign_in.providers(_text_or_file(text), None, None)
    return value


def _roles(value: str) -> str:
    sign_in.rules(_text_or_file(value))
    return value


def _text_or_file(value: str) -> str:
    """Return a setting's text, or that of the file that it names. Raises ValueError, which does not show the value."""
    if value.lstrip().startswith(("[", "{")):
        return value
    try:
        return Path(value).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ValueError(f"a JSON list, or a file that can be read, is expected: {why}") from None


def _networks(value: str) -> str:
    try:
        webhooks.networks(value)
    except ValueError as error:
        raise ValueError(f"10.0.0.0/8,… is expected: {error}") from None
    return value


def _holds_objects(value: str) -> bool:
    parts = urlsplit(value)
    if parts.scheme == "file":
        return not parts.netloc and parts.path.startswith("/")
    return parts.scheme in ("s3", "gs", "azure") and bool(parts.netloc) and not (parts.username or parts.query)


def _origins(value: str) -> str:
    origins = [origin.strip().rstrip("/") for origin in value.split(",") if origin.strip()]
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
            raise ValueError("https://host[:port],… is expected; `*` is not: a page of anybody could call the gateway")
    return ",".join(origins)


def _keys(value: str) -> str:
    parts = urlsplit(value)
    if not parts.hostname or (parts.scheme != "https" and (parts.scheme, parts.hostname in LOOPBACK) != ("http", True)):
        raise ValueError(
            "https://host/path is expected: by http:// anybody on the way could put in keys of their own; only an "
            "issuer at localhost may have it"
        )
    return value


def _repository(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("https://host/path of a Maven repository is expected")
    return value


def _collector(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("http://host:port or https://host:port is expected, where a collector takes OTLP over HTTP")
    return value.rstrip("/")


Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0)]


class Settings(ClientSettings):
    """The options of all parts, with their defaults; durations in seconds, sizes in bytes."""

    cache: Path | None = Field(
        None,
        description="Folder for Kafka's jars, which are downloaded once, and for files of the demo; by default "
        "`.cache/turnmill` if that exists, else `turnmill` in the user's own cache folder (`~/.cache`; on "
        "macOS `~/Library/Caches`).",
    )
    maven_repository: Annotated[str, AfterValidator(_repository)] | None = Field(
        None,
        description="Where Kafka's jars are downloaded from: `https://host/path`, also with `user:password@`. By "
        "default the mirror of Maven Central that `~/.m2/settings.xml` names, else Maven Central.",
        json_schema_extra={"secret": True},
    )
    store: Annotated[str, AfterValidator(_store)] | None = Field(
        None,
        description="`sqlite:///path` or `postgresql://…`; by default `threads.db` in TURNMILL_HOME.",
        json_schema_extra={"secret": True},
    )
    store_retention: Annotated[str, AfterValidator(_store_retention)] | None = Field(
        None,
        description="How long threads are kept after their newest turn, with their large values and their rows in the "
        "archive: `90d`; by tenant `90d,acme=30d,globex=forever`. By default for ever.",
    )
    content: Annotated[str, AfterValidator(_content)] | None = Field(
        None,
        description="Where large tool results and files are kept: `file:///folder`, `s3://bucket/prefix`, `gs://…`, "
        "`azure://container/prefix`, or `inline`: in the turns. By default the folder `content` in TURNMILL_HOME "
        "if the store is SQLite, else `inline`.",
    )
    content_threshold: Count = Field(
        100_000, description="Tool results and files of at least this many bytes are kept in the content store."
    )
    usage_sums: bool = Field(
        True,
        description="Whether the store keeps sums of usage besides its rows: `off` makes storing a turn cheaper, and "
        "reports on much usage slower. The store role that starts last decides for the whole store.",
    )
    requests: bool = Field(
        True,
        description="Whether turns include the requests to the model: the body of each without its messages (system "
        "prompt, tools, parameters). The store keeps equal bodies once, however often they are sent.",
    )
    feedback: bool = Field(True, description="Whether workers store feedback on threads, and gateways accept it.")
    search: Literal["on", "all", "off"] = Field(
        "on",
        description="What the store indexes for search: `on`: messages of users and agents, and names of tools; `all`: "
        "also thoughts and results of tools; `off`: nothing, and frees the space. Must be the same for all workers.",
    )
    archive: Annotated[str, AfterValidator(_archive)] | None = Field(
        None,
        description="Where the archive role keeps turns as Parquet: `file:///folder`, `s3://bucket/prefix`, `gs://…` "
        "or `azure://container/prefix`; with `iceberg+` before one of the first three, as tables of Apache Iceberg. By "
        "default there is no archive.",
    )
    archive_catalog: Annotated[str, AfterValidator(_catalog)] | None = Field(
        None,
        description="The catalog of the archive's Iceberg tables: `https://…`, a REST catalog, or `sqlite:///path`. By "
        "default the file `catalog.db` in the archive's folder; for a bucket, `archive.db` in TURNMILL_HOME.",
    )
    archive_bytes: Count = Field(
        33_554_432, description="A segment of the archive, of a single partition, is written at this many bytes."
    )
    archive_age: Seconds = Field(600.0, description="The longest time until a segment of the archive is written.")
    redact: str | None = Field(
        None,
        description="What is replaced in finished turns: names of built-in rules (`secrets`, `email`, …) and files of "
        "rules (`rules.json`), separated by commas. By default nothing.",
    )
    mask_errors: bool = Field(False, description="Replace the texts of errors in finished turns by a generic text.")
    partitions: Count = Field(
        12, description="Partitions of each topic when it is created; they bound the number of parallel workers."
    )
    replication: Count | None = Field(
        None, description="Replicas of each topic when it is created; by default 3, or as many as there are brokers."
    )
    retention: Annotated[str, AfterValidator(_retention)] | None = Field(
        None,
        description="How long topics keep records, where it differs from the catalog: `events=86400,turns=2592000`.",
    )
    processes: Count | None = Field(
        None,
        description="Processes of one `turnmill worker`, which share its port and its signals. By default two if it "
        "may use two cores: the roles that write to the store have one of their own; else, and with `--roles`, one.",
    )
    port: Port = Field(6066, description="Health and metrics of a worker; 0 takes a free port.")
    host: str = Field("127.0.0.1", description="Address that a worker's health and metrics listen on.")
    gateway_port: Port = Field(8080, description="The gateway's port; 0 takes a free one.")
    gateway_host: str = Field(
        "127.0.0.1", description="Address that the gateway listens on; without tokens it must be one of this machine."
    )
    gateway_tokens: SecretStr | None = Field(
        None,
        description="Tokens of the gateway's callers: a file of JSON lines, or the lines themselves; `turnmill gateway "
        "token` makes a token and its line. `store`: only tokens that `turnmill tokens` or the API makes.",
    )
    gateway_jwks_url: Annotated[str, AfterValidator(_keys)] | None = Field(
        None,
        description="Address of the keys of an issuer whose JSON Web Tokens the gateway accepts, `https://…`; "
        "`http://` only on this machine.",
    )
    gateway_jwt_issuer: str | None = Field(None, description="The issuer (`iss`) of those tokens.")
    gateway_jwt_audience: str | None = Field(None, description="The audience (`aud`) of those tokens.")
    gateway_jwt_tenant_claim: str = Field(
        "tenant", description="The claim that names the tenant; `none` if the tokens are for all tenants."
    )
    gateway_jwt_scope_claim: str = Field(
        "scope", description="The claim that lists the scopes: a string with spaces, or a list."
    )
    gateway_url: Annotated[str, AfterValidator(sign_in.address)] | None = Field(
        None, description="The address at which browsers reach the gateway, `https://…`; required if people sign in."
    )
    gateway_oidc: Annotated[SecretStr, AfterValidator(_oidc)] | None = Field(
        None,
        description="Sign-in by OpenID Connect: the issuer, or, for several, a JSON list of {name, title?, "
        "issuer, client_id, client_secret}, or a file that holds it. By default nobody can sign in.",
    )
    gateway_oidc_client_id: str | None = Field(None, description="The gateway's client id at the issuer.")
    gateway_oidc_client_secret: SecretStr | None = Field(None, description="The secret of that client id.")
    gateway_oidc_roles: Annotated[str, AfterValidator(_roles)] | None = Field(
        None,
        description="The roles of people: a JSON list of {role, claim, value?, provider?} with {tenant} (`*`: all) or "
        "{tenant_claim}, or a file that holds it. The first matching rule decides; without a match, access is denied.",
    )
    gateway_oidc_contact: str = Field(
        "whoever runs this gateway", description="Whom to ask for a role, as shown to people who have none."
    )
    gateway_session_seconds: Seconds = Field(43_200.0, description="Time after which people have to sign in again.")
    gateway_session_idle: Seconds = Field(
        3600.0, ge=300, description="Time without a request after which people have to sign in again, too."
    )
    gateway_origins: Annotated[str, AfterValidator(_origins)] = Field(
        "", description="Origins whose pages may call the gateway (CORS), `https://app.example.com,…`; by default none."
    )
    gateway_rate: float = Field(100.0, ge=0, description="Requests a second that a token may make; 0: no limit.")
    gateway_body_bytes: Count = Field(268_435_456, description="The largest body of an upload.")
    gateway_response_bytes: Count = Field(
        67_108_864,
        description="The most bytes that large values may add to a response; a thread can be read without them.",
    )
    gateway_caller_requests: Count = Field(
        500, description="Requests that a token may have open at once: uploads, live streams and all others."
    )
    gateway_header_bytes: Count = Field(8192, description="The largest headers of a request.")
    gateway_header_seconds: Seconds = Field(10.0, description="Time within which the headers of a request must arrive.")
    gateway_body_idle: Seconds = Field(
        300.0, description="Silence in the middle of an upload after which its run is closed as disconnected."
    )
    gateway_connections: Count = Field(2000, description="Connections that the gateway accepts at once.")
    gateway_live_window: Seconds = Field(
        3600.0, description="How far back a live stream looks for the beginning of runs that it shows."
    )
    gateway_live_bytes: Count = Field(
        67_108_864, description="Recent records that the gateway holds in memory for live streams."
    )
    gateway_proxy: str = Field(
        "",
        description="Providers that the gateway's proxy passes requests on to, and publishes: `openai,anthropic`, or "
        "`NAME=https://host/path` for any other server. By default none.",
    )
    gateway_proxy_budgets: bool = Field(
        False, description="Refuse calls of the proxy when a budget without an `enforce` of its own is used up."
    )
    gateway_proxy_hold: Seconds = Field(
        60.0, description="Time for which a call waits for a person's answer if a budget asks; then it is refused."
    )
    gateway_proxy_first_byte: Seconds = Field(900.0, description="Time within which a provider must begin to respond.")
    gateway_proxy_idle: Seconds = Field(300.0, description="Silence within a provider's response that ends it.")
    gateway_share_seconds: int = Field(
        0,
        ge=0,
        le=31_536_000,
        description="The longest life of a link by which people without a token read a thread; 0: there are no links.",
    )
    gateway_rerun: bool = Field(
        False,
        description="Whether callers of the gateway may repeat model calls with their own keys, also in the dashboard.",
    )
    webhooks: Annotated[SecretStr, AfterValidator(_webhooks)] | None = Field(
        None,
        description="Webhooks, which receive turns, feedback, deletions, budgets and alerts by HTTP: a JSON list of "
        "{name, url, secret, events?, tenant?, form?}, or a file that holds it; `[]` if only the API makes them. "
        "By default none.",
    )
    budgets: Annotated[str, AfterValidator(_budgets)] | None = Field(
        None,
        description="Budgets, limits of usage: a JSON list of {name, tokens or usd, per, tenant?, agent?, model?, "
        "enforce?}, or a file that holds it; `per` is `hour`, `day` or `month`. By default there are no budgets.",
    )
    alerts: Annotated[str, AfterValidator(_alerts)] | None = Field(
        None,
        description="Alerts on cost, errors, times and feedback: a JSON list of {name, figure, above or below, within, "
        "by?, least?, feedback?, tenant?, agent?, model?}, or a file that holds it. By default there are no alerts.",
    )
    prices: Annotated[str, AfterValidator(_prices)] | None = Field(
        None,
        description="Own prices: a JSON list of {model, provider?, tenant?, from?} with {input, output, cache_read?, "
        "cache_write?} in US dollars for a million tokens, or {times}, or a file that holds it. By default those of "
        "the package `genai-prices`.",
    )
    webhooks_allow: Annotated[str, AfterValidator(_networks)] = Field(
        "",
        description="Networks to which webhooks are delivered although they are not public, also by `http://`: "
        "`10.1.0.0/16,127.0.0.1/32`. By default none.",
    )
    webhooks_within: Seconds = Field(
        86_400.0, description="Time after a record for which its delivery is retried; then it is a dead letter."
    )
    audit_retention: float = Field(
        7_776_000.0,
        ge=0,
        description="How long the store keeps the audit's entries: who changed data or read it out; 0: only the log "
        "has them.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="The least severe level of log lines to write."
    )
    log_format: Literal["text", "json"] = Field("text", description="`text` for people, `json` for collectors.")
    otlp_endpoint: Annotated[str, AfterValidator(_collector)] | None = Field(
        None,
        description="Where a span of each turn is sent: a collector that accepts OTLP over HTTP, "
        "`http://localhost:4318`. By default nowhere.",
    )

    checkpoint_interval: Seconds = Field(1.0, description="Time between two checkpoints: produce, confirm, commit.")
    spill_after: Seconds = Field(
        30.0, description="A run open for longer is spilled to the state topic, so that a restart re-reads little."
    )
    gap_timeout: Seconds = Field(
        30.0, description="A run is closed as interrupted if events are missing in its numbering for longer."
    )
    idle_timeout: Seconds = Field(300.0, description="A run that is silent for longer is closed as interrupted.")
    run_timeout: Seconds = Field(3600.0, description="A run that lasts longer is closed as interrupted.")
    terminal_grace: Seconds = Field(
        5.0, description="Time to wait for late events of a run whose stream has ended, but whose `end` did not come."
    )
    reopen_window: Seconds = Field(3600.0, description="Time in which a late event reopens an interrupted turn.")
    dedupe_window: Seconds = Field(86_400.0, description="Time for which closed turns are remembered.")
    window_events: Count = Field(10_000, description="Most events of a run that wait for missing earlier ones.")
    window_bytes: Count = Field(
        8_388_608, description="Most bytes of records of a run that wait for missing earlier ones."
    )
    run_bytes: Count = Field(
        536_870_912,
        description="The most memory for the records of a run: their bytes, and the overhead of many small values. "
        "A run with more ends as interrupted, and the rest of its records becomes dead letters.",
    )
    assembly_bytes: Count = Field(
        134_217_728,
        description="The most memory for all open runs of a worker. Beyond it the largest ones are parked: the worker "
        "only tracks the numbers of their events, and builds them from the state topic when they are over.",
    )
    max_record_bytes: Count = Field(1_048_576, description="Larger records of the events topic become dead letters.")
    keep_telemetry_in_turns: bool = Field(False, description="Also keep data-sys-* events in the stored turns.")

    session_timeout: Seconds = Field(10.0, description="A worker that is silent for longer loses its partitions.")
    fetch_records: Count = Field(5000, description="Most records that are taken at once; at most 500 of turns.")
    metric_series: Count = Field(
        200, description="Most values of a metric label (model, agent, tenant, …); the rest is counted as `other`."
    )

    @property
    def cache_folder(self) -> Path:
        """The folder for downloads, as an absolute path; the default filled in."""
        here = Path(".cache") / "turnmill"
        return (self.cache or (here if here.is_dir() else _user_cache() / "turnmill")).absolute()

    @property
    def brokers_elsewhere(self) -> list[str]:
        """The brokers that are on other machines."""
        return [address for address in self.broker_list if address.rpartition(":")[0].strip("[]") not in LOOPBACK]

    @property
    def store_url(self) -> str:
        """The store's address, the default filled in."""
        return self.store or f"sqlite:///{self.home / 'threads.db'}"

    @property
    def content_url(self) -> str | None:
        """The content store's address, the default filled in; None: large values stay in their turns."""
        if self.content is not None:
            return None if self.content == INLINE else self.content
        return (self.home / "content").absolute().as_uri() if self.store_url.startswith("sqlite:") else None

    @property
    def kept_for(self) -> Retention:
        """The retention of threads: `store_retention`, parsed."""
        return Retention() if self.store_retention is None else Retention.parse(self.store_retention)

    @property
    def webhook_list(self) -> tuple[Webhook, ...]:
        """The webhooks of the setting."""
        return () if self.webhooks is None else webhooks.parse(_text_or_file(self.webhooks.get_secret_value()))

    @property
    def budget_list(self) -> tuple[Budget, ...]:
        """The budgets of the setting."""
        default: Enforce = "refuse" if self.gateway_proxy_budgets else "notice"
        return () if self.budgets is None else budgets.parse(_text_or_file(self.budgets), default)

    @property
    def alert_list(self) -> tuple[Alert, ...]:
        """The alerts of the setting."""
        return () if self.alerts is None else alerts.parse(_text_or_file(self.alerts))

    @property
    def price_list(self) -> Prices:
        """The prices of the setting."""
        return prices.NONE if self.prices is None else prices.parse(_text_or_file(self.prices))

    @property
    def provider_list(self) -> tuple[sign_in.Provider, ...]:
        """The providers by which people sign in. Raises ValueError."""
        if self.gateway_oidc is None:
            return ()
        text = self.gateway_oidc.get_secret_value()
        text = text if text.startswith(("https://", "http://")) else _text_or_file(text)
        return sign_in.providers(text, self.gateway_oidc_client_id, self.gateway_oidc_client_secret)

    @property
    def role_list(self) -> tuple[sign_in.Rule, ...]:
        """The rules that give people roles."""
        return () if self.gateway_oidc_roles is None else sign_in.rules(_text_or_file(self.gateway_oidc_roles))

    @property
    def retention_ms(self) -> dict[str, int]:
        """The retention by topic (without the prefix), in ms, where it differs from the catalog."""
        parts = (part.partition("=") for part in (self.retention or "").split(",") if part)
        return {name: int(seconds) * 1000 for name, _, seconds in parts}

    @property
    def gateway_origin_list(self) -> list[str]:
        """The origins whose pages may call the gateway."""
        return self.gateway_origins.split(",") if self.gateway_origins else []


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings from the environment. Raises CallerError, which names each unknown or bad variable."""
    environ = os.environ if environ is None else environ
    return read(Settings, environ, overrides, unknown(Settings, environ))


def tool_home(name: Literal["JAVA_HOME", "KAFKA_HOME"]) -> Path | None:
    """Return the folder of another program, by its own standard variable."""
    return Path(os.environ[name]) if os.environ.get(name) else None


def _user_cache() -> Path:
    """Return the folder of this user's caches (XDG's base directories; Apple's on macOS)."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if named.startswith("/") else Path.home() / ".cache"


def table(settings: Settings) -> list[tuple[str, str, str, str]]:
    """Return rows (variable, current value, default, meaning); passwords are masked."""
    rows = []
    derived: dict[str, object] = {
        "store": settings.store_url,
        "content": settings.content_url or INLINE,
        "cache": settings.cache_folder,
        "spool": settings.spool_folder,
    }
    for name, field in Settings.model_fields.items():
        value = derived.get(name, getattr(settings, name))
        shown = "***" if isinstance(value, SecretStr) else without_password(str(value)) if value is not None else ""
        default = "" if field.default is None else str(field.default)
        rows.append((PREFIX + name.upper(), shown, default, field.description or ""))
    return rows
