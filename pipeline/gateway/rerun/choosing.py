"""Which stored answer to ask for again, and the request to send for it: its body, address and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.dialects.asked_again import HISTORY, answered, request_again, with_system, with_value
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.agents_and_requests import request_bodies
from pipeline.stores.threads.reading import read_records
from pipeline.turns.branches import one_branch
from pipeline.turns.requests import request_of
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.capture.providers import APIS, BASES, GENERATE, PROVIDERS
from turnmill.errors import CallerError


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
    api = APIS[dialect]
    name = provider if provider in BASES else api.owner if provider is None or base else None
    if name is None:
        raise CallerError(f"no address is known for the provider {provider!r:.60}: give it by --base-url")
    server = PROVIDERS[name]
    address = (base or variables.get(server.variable) or BASES[name] + server.version).rstrip("/")
    key = next((variables[variable] for variable in server.keys if variables.get(variable)), None)
    if key is None:
        raise CallerError(f"the request goes out with your own key: set {' or '.join(server.keys)}")
    path = api.streamed.format(model=model)
    if address.endswith("/v1"):
        path = path.removeprefix("/v1")
    return Request(dialect, provider or name, model, address + path, api.headers_with(key), body)


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes to make to a request."""

    model: str | None
    system: str | None
    tools: Any
    values: Mapping[str, Any]
    base: str | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """One answer to ask for again, and the request for it."""

    key: ThreadKey
    record: TurnRecord
    request: Request


async def chosen(
    store: ThreadStore,
    contents: ContentStore,
    key: ThreadKey,
    stored: Fields,
    turn: str | None,
    changes: Changes,
    variables: Mapping[str, str],
) -> Chosen | None:
    """Return the answer to ask for again, None if there is none whose request is stored.

    `stored`: its thread; `turn`: id of turn or run, None: the newest; `variables`: environment with key and addresses.
    Raises CallerError.
    """
    document = await contents.inlined(key, stored)
    turns = document["turns"] if turn else one_branch(document)["turns"]
    names = [
        turn_document
        for turn_document in reversed(turns)
        if turn in (None, turn_document.get("meta:turn_id"), turn_document.get("meta:run_id"))
    ]
    meant = next((name for name in names if answered(name)), None)
    if meant is None:
        return None
    response, position = answered(meant) or ({}, 0)
    name = request_of(response) or ""
    asked = (await request_bodies(store, [name], key.tenant or "")).get(name)
    record = next(
        read_record for read_record in await read_records(store, key) if read_record["turn_id"] == meant["meta:turn_id"]
    )
    if asked is None:
        return None
    if record["dialect"] not in HISTORY or "request" in asked:
        if turn is None:
            return None
        raise CallerError(f"a request of {record['dialect']} can't be sent again: those of providers' APIs can")
    body = _changed(request_again(document, meant, position, asked, record["dialect"]), record["dialect"], changes)
    model = changes.model or asked.get("model") or response.get("model_name") or ""
    provider = response.get("provider_name")
    return Chosen(key, record, request(record["dialect"], provider, model, body, changes.base, variables))


def _changed(body: Fields, dialect: str, changes: Changes) -> Fields:
    if changes.model is not None and dialect != GENERATE:
        body = {**body, "model": changes.model}
    if changes.system is not None:
        body = with_system(body, dialect, changes.system)
    if changes.tools is not None:
        body = {**body, "tools": changes.tools}
    for path, value in changes.values.items():
        try:
            body = with_value(body, path, value)
        except ValueError as error:
            raise CallerError(f"{path}: {error}") from None
    return body
