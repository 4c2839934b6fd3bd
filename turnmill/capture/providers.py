"""What is known of providers and their APIs: everything that differs between them is in the two tables of this module.

A request is captured if it is a `POST` to the host of a provider, on a path on which a model answers. For hosts of
TURNMILL_CAPTURE_HOSTS the paths of all APIs count; so they do for any other host, if the body asks a model, too.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

RESPONSES, CHAT, MESSAGES, GENERATE = "openai-responses", "openai-chat", "anthropic", "gemini"
BEDROCK, COHERE, INTERACTIONS, MISTRAL, OLLAMA = "bedrock", "cohere", "gemini-interactions", "mistral", "ollama"


@dataclass(frozen=True, slots=True)
class Api:
    """An API of models.

    `owner`: the provider that defines it. `path`: the end of its paths, without the query. `history`: the member of a
    request for its messages. `streamed`: the path of a streamed request below the provider's address, where requests
    can be sent again. `headers`: those that a request needs.
    """

    owner: str
    path: re.Pattern[str]
    history: str
    streamed: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def headers_with(self, key: str) -> dict[str, str]:
        """Return the headers of a request with this key."""
        return {name: value.format(key=key) for name, value in self.headers.items()}


BEARER: Final = {"authorization": "Bearer {key}"}
APIS: Final[dict[str, Api]] = {  # by the wire that it speaks
    RESPONSES: Api("openai", re.compile(r"/responses/?\Z"), "input", "/responses", BEARER),
    CHAT: Api("openai", re.compile(r"/(?:chat|agents)/completions/?\Z"), "messages", "/chat/completions", BEARER),
    MESSAGES: Api(
        "anthropic",
        re.compile(r"/v1/messages/?\Z|/publishers/anthropic/models/[^/]+:(?:rawPredict|streamRawPredict)\Z"),
        "messages",
        "/v1/messages",
        {"x-api-key": "{key}", "anthropic-version": "2023-06-01"},
    ),
    GENERATE: Api(
        "google",
        re.compile(r"/models/[^/]+:(?:generateContent|streamGenerateContent)\Z"),
        "contents",
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        {"x-goog-api-key": "{key}"},
    ),
    BEDROCK: Api(
        "bedrock",
        re.compile(r"/model/(?:.+/converse|.*anthropic.*/invoke)(?:-stream|-with-response-stream)?\Z"),
        "messages",
    ),
    COHERE: Api("cohere", re.compile(r"/v2/chat/?\Z"), "messages"),
    INTERACTIONS: Api("google", re.compile(r"/interactions/?\Z"), "input"),
    MISTRAL: Api("mistral", re.compile(r"/v1/conversations(?:/[^/]+(?:/restart)?)?\Z"), "inputs"),
    OLLAMA: Api("ollama", re.compile(r"/api/(?:chat|generate)\Z"), "messages"),
}
IN_PATH: Final = re.compile(
    r"/(?:deployments|models)/(?P<model>[^/:]+)(?=[/:])|/model/(?P<modelId>.+)/(?:converse|invoke)"
    r"|/v1/conversations/(?P<conversation_id>[^/]+)"
)


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider.

    `hosts`: `*` stands for any part without a dot. `apis`: the wires of those that it serves. `base`: its address; None
    if each customer has another one. `version`: the path below the base to which OpenAI's SDKs add their paths.
    `variable`: sets another address, with the version. `read`: the variables that SDKs and programs read for the
    address; each with the path that its default has below the base. `keys`: the variables that may hold a key.
    """

    hosts: tuple[str, ...]
    apis: tuple[str, ...]
    base: str | None = None
    version: str = ""
    variable: str = ""
    read: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()


class Known(NamedTuple):
    """The provider and the wire of a request; the provider of a host that nobody has named is the host itself.

    `sure`: the host is a provider's. For others, `asks_a_model` looks at the body.
    """

    provider: str
    dialect: str
    sure: bool = True


PROVIDERS: Final[dict[str, Provider]] = {
    "anthropic": Provider(
        hosts=("api.anthropic.com",),
        apis=(MESSAGES, CHAT),
        base="https://api.anthropic.com",
        variable="ANTHROPIC_BASE_URL",
        read={"ANTHROPIC_BASE_URL": ""},
        keys=("ANTHROPIC_API_KEY",),
    ),
    "azure": Provider(
        hosts=("*.openai.azure.com", "*.services.ai.azure.com", "*.cognitiveservices.azure.com"),
        apis=(RESPONSES, CHAT, MESSAGES),
    ),
    "bedrock": Provider(
        hosts=("bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com", "bedrock-mantle.*.api.aws"),
        apis=(BEDROCK, MESSAGES, CHAT, RESPONSES),
    ),
    "cohere": Provider(("api.cohere.com",), (COHERE,), "https://api.cohere.com", read={"CO_API_URL": ""}),
    "google": Provider(
        hosts=(
            "generativelanguage.googleapis.com",
            "aiplatform.googleapis.com",
            "*-aiplatform.googleapis.com",
            "aiplatform.*.rep.googleapis.com",
        ),
        apis=(GENERATE, INTERACTIONS, MESSAGES, CHAT),
        base="https://generativelanguage.googleapis.com",
        variable="GOOGLE_GEMINI_BASE_URL",
        read={"GOOGLE_GEMINI_BASE_URL": ""},
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "groq": Provider(
        hosts=("api.groq.com",),
        apis=(CHAT, RESPONSES),
        base="https://api.groq.com",
        version="/openai/v1",
        variable="GROQ_BASE_URL",
        read={"GROQ_BASE_URL": ""},
        keys=("GROQ_API_KEY",),
    ),
    "mistral": Provider(
        hosts=("api.mistral.ai",),
        apis=(CHAT, MISTRAL),
        base="https://api.mistral.ai",
        version="/v1",
        variable="MISTRAL_BASE_URL",
        keys=("MISTRAL_API_KEY",),
    ),
    "ollama": Provider(
        hosts=("127.0.0.1:11434", "localhost:11434", "ollama.com"),
        apis=(OLLAMA, CHAT, RESPONSES, MESSAGES),
        base="http://127.0.0.1:11434",  # `OLLAMA_HOST` is not changed: a server reads it, too
    ),
    "openai": Provider(
        hosts=("api.openai.com", "*.api.openai.com"),
        apis=(RESPONSES, CHAT),
        base="https://api.openai.com",
        version="/v1",
        variable="OPENAI_BASE_URL",
        read={"OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1"},
        keys=("OPENAI_API_KEY",),
    ),
    "openrouter": Provider(
        hosts=("openrouter.ai",),
        apis=(CHAT, RESPONSES, MESSAGES),
        base="https://openrouter.ai",
        version="/api/v1",
        variable="OPENROUTER_BASE_URL",
        keys=("OPENROUTER_API_KEY",),
    ),
}
BASES: Final = {name: provider.base for name, provider in PROVIDERS.items() if provider.base is not None}
HOSTS: Final = tuple(
    (re.compile(re.escape(host).replace(r"\*", r"[^.]+")), name)
    for name, provider in PROVIDERS.items()
    for host in provider.hosts
)


OF_HOST: Final = {"chatgpt.com": "openai"}  # hosts that only the provider's program calls


class Providers:
    """Recognizes requests to providers; a request to any other host costs one lookup in a dict."""

    def __init__(self, more: Mapping[str, str] | None = None) -> None:
        """`more`: further hosts, as {host[:port]: provider}."""
        self._more = dict(more or {})
        self._by_host: dict[str, tuple[str, Iterable[str], bool]] = {}

    def known(self, method: str, host: str, port: int | None, path: str) -> Known | None:
        """Return the provider and wire of a request; None where it goes to no model. `path`: without the query."""
        if method.upper() != "POST":
            return None
        address = f"{host}:{port}" if port else host
        try:
            at = self._by_host[address]
        except KeyError:
            if len(self._by_host) > 10_000:  # as in a crawler
                self._by_host.clear()
            at = self._by_host[address] = self._of_host(host.lower().rstrip("."), port)
        name, apis, sure = at
        dialect = dialect_of(path, apis)
        return None if dialect is None else Known(name, dialect, sure)

    def _of_host(self, host: str, port: int | None) -> tuple[str, Iterable[str], bool]:
        name = self._more.get(f"{host}:{port}") or self._more.get(host)
        if name is not None:
            return name, APIS, True
        addresses = (host, f"{host}:{port}")
        provider = next((name for pattern, name in HOSTS if any(map(pattern.fullmatch, addresses))), None)
        return (
            (OF_HOST.get(host, host), APIS, False) if provider is None else (provider, PROVIDERS[provider].apis, True)
        )


def dialect_of(path: str, apis: Iterable[str] = APIS) -> str | None:
    """Return the wire of the API that has this path (without the query); None: it is none of these APIs'."""
    return next((dialect for dialect in apis if APIS[dialect].path.search(path)), None)


def asks_a_model(dialect: str, path: str, body: Any) -> bool:
    """Return True for a request's body in JSON that names a model, or has one in its path, and holds a conversation."""
    names = isinstance(body, dict) and (isinstance(body.get("model"), str) or bool(named_in(path)))
    return names and not body.keys().isdisjoint((APIS[dialect].history, "prompt"))


def named_in(path: str) -> dict[str, str]:
    """Return what a path names, instead of a body: a `model`, Bedrock's `modelId`, Mistral's `conversation_id`."""
    match = IN_PATH.search(path)
    return {} if match is None else {name: value for name, value in match.groupdict().items() if value}
