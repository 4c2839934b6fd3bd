"""Chooses which stored answer to ask for again, and the request to send for it: its body, address and key.

Sends that request to its model, turns the answer into events of its wire, assembles them as a worker does, publishes.

Two answers to the same question are compared by text, tools, tokens, cost and time.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import aiohttp

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.dialects.asked_again import HISTORY, answered, request_again, with_system, with_value
from pipeline.gateway.proxy.client import reason
from pipeline.policies.prices import Prices
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.agents_and_requests import request_bodies
from pipeline.stores.threads.reading import read_records
from pipeline.stores.threads.rows import record_rows
from pipeline.turns.branches import one_branch
from pipeline.turns.requests import request_of
from pipeline.turns.searched_text import spoken, tools_called
from pipeline.turns.tokens import NANO
from topics import json_text
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.capture.exchange import Exchange
from turnmill.capture.providers import APIS, BASES, GENERATE, PROVIDERS
from turnmill.clock import now_ms
from turnmill.errors import CallerError
from turnmill.publish.publisher import Publisher
from turnmill.wire.envelope import VERSION

ANSWER_TIMEOUT: Final = 600.0  # seconds that one answer may take
MESSAGE_MEMBERS: Final = ("message", "detail", "error", "reason")  # members of an interruption, the most detailed first


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
    """Return the request. Raises CallerError if its server or its key is unknown, or for no name of a model."""
    api = APIS[dialect]
    usual = PROVIDERS[api.owner].variable
    told = base or variables.get(usual)  # also where PROVIDERS has no such server
    name = provider if provider in BASES else api.owner if provider is None or told else None
    if name is None:
        raise CallerError(f"no address is known for the provider {provider!r:.60}: give it by --base-url or {usual}")
    server = PROVIDERS[name]
    address = (base or variables.get(server.variable) or BASES[name] + server.version).rstrip("/")
    key = next((variables[variable] for variable in server.keys if variables.get(variable)), None)
    if key is None:
        raise CallerError(f"the request goes out with your own key: set {' or '.join(server.keys)}")
    if not {"", ".", ".."}.isdisjoint(model.split("/")):
        raise CallerError(f"no model has the name {model!r:.100}")  # a server would read another path
    path = api.streamed.format(model=quote(model))
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
    most: int | None = None,
) -> Chosen | None:
    """Return the answer to ask for again, None if there is none whose request is stored.

    `stored`: its thread; `turn`: id of turn or run, None: the newest; `variables`: environment with key and addresses;
    `most`: bytes of large values. Raises CallerError, StoreError.
    """
    document = await contents.inlined(key, stored, most)
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
        raise CallerError(f"a request of {record['dialect']} can't be sent again: those of {', '.join(HISTORY)} can")
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


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """The events of an answer with their times (epoch ms), and how the run ended."""

    run_id: str
    events: Sequence[tuple[int, Fields]]
    end: str


async def call(session: aiohttp.ClientSession, request: Request) -> ReadAnswer:
    """Send a request, and read its answer to the end. A failure is reported among the events."""
    exchange = Exchange(request.dialect, request.body, request.headers)
    heard = [(now_ms(), event) for event in exchange.asked()]
    headers = {**request.headers, "content-type": "application/json", "accept-encoding": "gzip, deflate"}
    how = "finished"
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            async with session.post(
                request.url, data=json_text.to_bytes(request.body), headers=headers, allow_redirects=False
            ) as answer:
                names = {name.lower(): value for name, value in answer.headers.items()}
                heard += ((now_ms(), event) for event in exchange.answered(answer.status, names))
                async for chunk in answer.content.iter_any():
                    heard += ((now_ms(), event) for event in exchange.data(chunk))
        heard += ((now_ms(), event) for event in exchange.finished())
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        how = "failed"
        heard += ((now_ms(), event) for event in exchange.failed(f"{type(error).__name__}: {reason(error)}"))
    return ReadAnswer(str(uuid4()), heard, exchange.verdict(how).end)


def assembled(heard: ReadAnswer, request: Request, before: TurnRecord) -> TurnRecord:
    """Return the record of the answer's turn, as a worker makes it."""
    start = heard.events[0][0]
    envelope: dict[str, Any] = {
        "v": VERSION,
        "thread_id": before["thread_id"],
        "run_id": heard.run_id,
        "agent_id": before["agent_id"],
        "dialect": request.dialect,
        "seq": 0,
        "ts": start,
        "dt": [at - start for at, _ in heard.events],
        "events": [event for _, event in heard.events],
        "run": facts(request, before),
        "end": heard.end,
    }
    if "tenant" in before:
        envelope["tenant"] = before["tenant"]
    records, _ = assemble(DIALECTS[request.dialect], [envelope])
    return next(record for record in records if record["turn"] is not None and record["turn"]["turn_type"] == "agent")


async def publish(
    publisher: Publisher, heard: ReadAnswer, request: Request, key: ThreadKey, before: TurnRecord
) -> None:
    """Publish an answer as another version of the answer `before`."""
    run = publisher.run(
        thread_id=key.thread_id,
        agent_id=before["agent_id"],
        dialect=request.dialect,
        run_id=heard.run_id,
        tenant=key.tenant,
        info=facts(request, before),
    )
    run.verdict = heard.end
    async with run:
        for at, event in heard.events:
            await run.send(event, at=at)


def facts(request: Request, before: TurnRecord) -> Mapping[str, Any]:
    """Return the facts that the new run is published with."""
    return {"model_name": request.model, "provider_name": request.provider, "replaces": before["run_id"]}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: the turn's first response, even if interrupted. `cost_usd` None: unknown."""

    model: str | None
    status: str
    text: str
    tools: tuple[str, ...]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    duration_ms: int | None
    problem: str | None = None  # the provider's error
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """An answer and its new version. `run_id`: of the new version, if it was published."""

    thread_id: str
    turn_id: str
    run_id: str | None
    before: Answer
    after: Answer


def answer_of(record: TurnRecord, prices: Prices) -> Answer:
    """Return the answer in an agent turn's record."""
    turn = record["turn"] or {}
    response = answered(turn)
    first = response[0] if response else next((m for m in turn["messages"] if m.get("message_type") == "response"), {})
    alone = {"messages": [first]}
    usage = next((dict(row) for row in record_rows(record, None, prices).usage if row["position"] == 0), {})
    cost = usage.get("cost_nano_usd")
    ended = turn.get("interruption") or {}
    timings: Sequence[Any] = record.get("timings") or ({},)
    return Answer(
        model=first.get("model_name") or usage.get("model"),
        status=record["status"],
        text="".join(text for kind, text in spoken(alone) if kind == "said"),
        tools=tuple(tools_called(alone)),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cost_usd=None if cost is None else cost / NANO,
        duration_ms=timings[0].get("duration_ms"),
        problem=next((message for name in MESSAGE_MEMBERS if isinstance(message := ended.get(name), str)), None),
    )
