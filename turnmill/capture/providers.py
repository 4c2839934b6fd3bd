"""The providers whose APIs are captured: their hosts, and the paths on which a model answers, with their dialects.

Only `POST` requests to such a host and path are captured. TURNMILL_CAPTURE_HOSTS adds hosts, for which all of the paths
below count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Api:
    """One API: the end of its path (without the query), and the wire that it speaks."""

    path: re.Pattern[str]
    dialect: str


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider: its hosts, where `*` stands for any part without a dot, and what it serves."""

    hosts: tuple[str, ...]
    apis: tuple[Api, ...]


class Known(NamedTuple):
    """The provider and the wire of a request."""

    provider: str
    dialect: str


RESPONSES: Final = Api(re.compile(r"/responses/?\Z"), "openai-responses")
CHAT: Final = Api(re.compile(r"/(?:chat|agents)/completions/?\Z"), "openai-chat")
MESSAGES: Final = Api(
    re.compile(r"/v1/messages/?\Z|/publishers/anthropic/models/[^/]+:(?:rawPredict|streamRawPredict)\Z"), "anthropic"
)
GENERATE: Final = Api(re.compile(r"/models/[^/]+:(?:generateContent|streamGenerateContent)\Z"), "gemini")
APIS: Final = (RESPONSES, CHAT, MESSAGES, GENERATE)
MODEL: Final = re.compile(r"/(?:deployments|models)/([^/:]+)(?=[/:])")  # in a path; some bodies have none

PROVIDERS: Final[dict[str, Provider]] = {
    "anthropic": Provider(("api.anthropic.com",), (MESSAGES, CHAT)),
    "azure": Provider(
        ("*.openai.azure.com", "*.services.ai.azure.com", "*.cognitiveservices.azure.com"), (RESPONSES, CHAT, MESSAGES)
    ),
    "google": Provider(
        (
            "generativelanguage.googleapis.com",
            "aiplatform.googleapis.com",
            "*-aiplatform.googleapis.com",
            "aiplatform.*.rep.googleapis.com",
        ),
        (GENERATE, MESSAGES, CHAT),
    ),
    "groq": Provider(("api.groq.com",), (CHAT, RESPONSES)),
    "mistral": Provider(("api.mistral.ai",), (CHAT,)),
    "openai": Provider(("api.openai.com", "*.api.openai.com"), (RESPONSES, CHAT)),
    "openrouter": Provider(("openrouter.ai",), (CHAT, RESPONSES, MESSAGES)),
}
HOSTS: Final = tuple(
    (re.compile(re.escape(host).replace(r"\*", r"[^.]+")), name)
    for name, provider in PROVIDERS.items()
    for host in provider.hosts
)


class Providers:
    """Recognizes requests to providers; a request to any other host costs one lookup in a dict."""

    def __init__(self, more: Mapping[str, str] | None = None) -> None:
        """`more`: further hosts, as {host[:port]: provider}."""
        self._more = dict(more or {})
        self._by_host: dict[str, tuple[str, tuple[Api, ...]] | None] = {}

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
        if at is None:
            return None
        name, apis = at
        return next((Known(name, api.dialect) for api in apis if api.path.search(path)), None)

    def _of_host(self, host: str, port: int | None) -> tuple[str, tuple[Api, ...]] | None:
        name = self._more.get(f"{host}:{port}") or self._more.get(host)
        if name is not None:
            return name, APIS
        found = next((name for pattern, name in HOSTS if pattern.fullmatch(host)), None)
        return None if found is None else (found, PROVIDERS[found].apis)


def model_in(path: str) -> str | None:
    """Return the model that a path names: a deployment of Azure, a model of Google's."""
    found = MODEL.search(path)
    return found[1] if found else None
