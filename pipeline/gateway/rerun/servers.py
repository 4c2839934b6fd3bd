"""The address, path and key of each provider to which requests can be sent again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.dialects.asked_again import CHAT, GENERATE, MESSAGES, RESPONSES
from topics.json_text import Fields
from turnmill.errors import CallerError

PATHS: Final = {CHAT: "/chat/completions", RESPONSES: "/responses", MESSAGES: "/v1/messages"}
OF_DIALECT: Final = {CHAT: "openai", RESPONSES: "openai", MESSAGES: "anthropic", GENERATE: "google"}
VERSION: Final = "2023-06-01"  # of Anthropic's API


@dataclass(frozen=True, slots=True)
class Server:
    """A provider: its address, the variable that overrides it, and the variables that may hold the caller's key."""

    base: str
    variable: str
    keys: tuple[str, ...]


SERVERS: Final[Mapping[str, Server]] = {
    "anthropic": Server("https://api.anthropic.com", "ANTHROPIC_BASE_URL", ("ANTHROPIC_API_KEY",)),
    "google": Server(
        "https://generativelanguage.googleapis.com", "GOOGLE_GEMINI_BASE_URL", ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    ),
    "groq": Server("https://api.groq.com/openai/v1", "GROQ_BASE_URL", ("GROQ_API_KEY",)),
    "mistral": Server("https://api.mistral.ai/v1", "MISTRAL_BASE_URL", ("MISTRAL_API_KEY",)),
    "openai": Server("https://api.openai.com/v1", "OPENAI_BASE_URL", ("OPENAI_API_KEY",)),
    "openrouter": Server("https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", ("OPENROUTER_API_KEY",)),
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model. `headers` include the key, and are neither printed nor published."""

    dialect: str
    provider: str
    model: str
    url: str
    headers: Mapping[str, str]
    body: Fields


def request(
    dialect: str, provider: str | None, model: str, body: Fields, base: str | None, variables: Mapping[str, str]
) -> Request:
    """Return the request. Raises CallerError if its server or its key is unknown."""
    own = OF_DIALECT[dialect]
    name = provider if provider in SERVERS else own if provider is None or base else None
    if name is None:
        raise CallerError(f"no address is known for the provider {provider!r:.60}: give it by --base-url")
    server = SERVERS[name]
    address = (base or variables.get(server.variable) or server.base).rstrip("/")
    key = next((variables[one] for one in server.keys if variables.get(one)), None)
    if key is None:
        raise CallerError(f"the request goes out with your own key: set {' or '.join(server.keys)}")
    path = PATHS.get(dialect) or f"/v1beta/models/{model}:streamGenerateContent?alt=sse"
    if address.endswith("/v1"):
        path = path.removeprefix("/v1")
    return Request(dialect, provider or name, model, address + path, _headers(dialect, key), body)


def _headers(dialect: str, key: str) -> dict[str, str]:
    if dialect == MESSAGES:
        return {"x-api-key": key, "anthropic-version": VERSION}
    if dialect == GENERATE:
        return {"x-goog-api-key": key}
    return {"authorization": f"Bearer {key}"}
