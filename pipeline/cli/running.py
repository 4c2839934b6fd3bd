"""The running system: the gateway at the configured address, and the folder that it keeps everything in."""

import asyncio
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import click

from pipeline.settings import Settings, load
from turnmill.errors import BrokerError

PATIENCE: Final = 2.0  # seconds for which a gateway on this machine may be silent


def at_gateway(url: str | None = None) -> Settings:
    """Return the settings with the address of the gateway to ask: given, TURNMILL_PUBLISH_URL's, or this machine's."""
    settings = load()
    here = f"http://{settings.gateway_host}:{settings.gateway_port}"
    return settings.model_copy(update={"publish_url": (url or settings.publish_url or here).rstrip("/")})


def asked(path: str, *names: str) -> dict[str, Any] | None:
    """Return a gateway's answer, and say where it is; None if none answers, and TURNMILL_PUBLISH_URL names none."""
    from turnmill.gateway_call import call  # noqa: PLC0415  # it needs httpx, which not all commands have

    settings = at_gateway()
    try:
        answer = asyncio.run(call(settings, "GET", path, *names))
    except BrokerError:
        if "publish_url" in load().model_fields_set:
            raise
        return None
    click.echo(f"in {settings.publish_url}", err=True)
    return answer


def load_running() -> Settings:
    """Return the settings; where they name neither a store nor a home, with the home of the gateway that runs here."""
    settings = load()
    if settings.model_fields_set & {"home", "store"}:
        return settings
    home = _home_of(settings.gateway_host, settings.gateway_port)
    return settings if home is None else settings.model_copy(update={"home": home})


@cache
def _home_of(host: str, port: int) -> Path | None:
    """Return the home of the gateway there, which a process asks once; None without one, or without a store in it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        address = f"http://{host}:{port}/livez"
        with urlopen(address, timeout=PATIENCE) as answer:  # of http, as it says
            home = Path(json.load(answer)["home"])
        return home if (home / "threads.db").exists() else None
    return None
