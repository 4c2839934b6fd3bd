"""Each endpoint of the gateway's OpenAPI document, called as an ASGI app, in this process. There is no broker: what is
published is counted; what is read of topics is answered with 503, and tried as records in `tests.climbing.topics`.
"""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

from pydantic import SecretStr

from pipeline.gateway.serving.app import create_app
from pipeline.policies.webhooks import Webhook
from pipeline.stores.database.schema import metadata
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound.deliveries import add_webhook
from pipeline.stores.turns import write_turns
from tests.climbing.cost import Target
from tests.climbing.topics import THREAD_ID, turns_of
from tests.property.test_hostile_events import FILES
from tests.support.spools import away
from topics import json_text, turn_record
from turnmill.publish.publisher import Publisher

WITHIN: Final = 0.5  # seconds, as what waits for a broker costs nothing
NAMES: Final = {
    "thread_id": THREAD_ID,
    "run_id": "r0",
    "dialect": "vercel-ai",
    "url": "https://example.com/hook",
    "events": ["turn.completed"],
    "webhook_id": "wh_1",
    "since": "2026-01-01T00:00:00Z",
    "until": "2026-03-01T00:00:00Z",
}


class _Done:
    """What may be awaited, or not: a delivery's `put` isn't, a publisher's is."""

    def __await__(self) -> Iterator[None]:
        return iter(())


_DONE: Final = _Done()


class Sink(Publisher):
    """Counts records where another would send them."""

    taken = 0
    trouble = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._linger_is_over()

    @property
    def delivery(self) -> Any:
        return self

    async def room(self) -> None:
        pass

    def put(self, key: bytes, value: bytes, headers: Any = None) -> Any:
        self.taken += 1
        return _DONE

    async def kept(self, within: float = 0) -> None:
        self._linger_is_over()


class Called:
    """One gateway, whose store holds some threads."""

    def __init__(self, folder: Path, runner: asyncio.Runner) -> None:
        path = folder / "called.db"
        settings = away(folder, store=f"sqlite:///{path}", gateway_rate=0.0, webhooks=SecretStr("[]"))
        self.runner = runner
        self.status = 0  # of the latest answer
        runner.run(self._fill(settings.store_url))
        self.app = create_app(settings)
        self.sink = Sink(settings.model_copy(update={"publish_url": None}))
        self.app.state.gateway._publisher.value = self.sink
        self.rows = sqlite3.connect(path, isolation_level=None)
        self.kept = sqlite3.connect(":memory:")
        self.rows.backup(self.kept)
        self.document = self.app.openapi()

    async def _fill(self, url: str) -> None:
        async with await ThreadStore.open(url, migrate=True) as store:
            await add_webhook(store, Webhook(NAMES["webhook_id"], NAMES["url"], ("turn.completed",), None, ("secret",)))
            for dialect in FILES:
                values = [json_text.dumps(record).encode() for records in turns_of(dialect) for record in records]
                await write_turns(store, [turn_record.decode(value) for value in values])

    def count(self) -> int:
        """Rows of the store, and records that were published."""
        counts = [self.rows.execute(f"SELECT count(*) FROM {table.name}") for table in metadata.sorted_tables]
        return self.sink.taken + sum(int(count.fetchone()[0]) for count in counts)

    def call(self, request: tuple[dict[str, Any], bytes]) -> int:
        """Call, and read the answer -> rows and records that it made."""
        self.kept.backup(self.rows)
        before = self.count()
        self.runner.run(self._call(*request))
        return max(0, self.count() - before)

    async def _call(self, scope: dict[str, Any], body: bytes) -> None:
        sent = False
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if sent:
                await gone.wait()
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            if message["type"] == "http.response.body" and not message.get("more_body"):
                gone.set()

        with suppress(TimeoutError):
            async with asyncio.timeout(WITHIN):
                await self.app({**scope, "state": {}}, receive, send)

    def close(self) -> None:
        self.rows.close()
        self.kept.close()
        self.runner.run(self.app.state.gateway.close())


def rendered(method: str, template: str, kind: str, value: Any) -> tuple[dict[str, Any], bytes]:
    """An input -> the ASGI scope and the body of its request."""
    path = template
    for name, text in value["path"].items():
        path = path.replace(f"{{{name}}}", quote(_text(text), safe=""))
    query = urlencode({name: item if isinstance(item, list) else _text(item) for name, item in value["query"].items()},
                      doseq=True, errors="replace")  # fmt: skip
    fields = {name.lower(): _text(item) for name, item in value["headers"].items()}
    body = b"" if value.get("body") is None else _text(value["body"]).encode("utf-8", "surrogatepass")
    headers = [(name.encode("latin-1"), item.encode("latin-1")) for name, item in fields.items()]
    headers += [(b"host", b"localhost"), *([(b"content-type", kind.encode())] if kind else [])]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"}
    places = {"client": ("127.0.0.1", 1), "server": ("localhost", 80), "root_path": ""}
    return {**scope, **places, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": headers}, body  # fmt: skip


def size(request: tuple[dict[str, Any], bytes]) -> int:
    scope, body = request
    fields = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return len(scope["raw_path"]) + len(scope["query_string"]) + fields + len(body)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def example(schema: Any, document: dict[str, Any], name: str = "") -> Any:
    """A value that a schema describes."""
    if "$ref" in schema:
        part: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            part = part[step]
        return example(part, document, name)
    if name in NAMES:
        return NAMES[name]
    for one in ("example", "default", "const"):
        if schema.get(one) is not None:
            return schema[one]
    for one in ("examples", "enum"):
        if schema.get(one):
            return schema[one][0]
    for one in ("anyOf", "oneOf", "allOf"):
        if schema.get(one):
            return example(schema[one][0], document, name)
    match schema.get("type"):
        case "object":
            return {key: example(of, document, key) for key, of in schema.get("properties", {}).items()}
        case "array":
            return [example(schema.get("items", {}), document)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case _:
            return "2026-01-20T10:00:00Z" if schema.get("format") == "date-time" else "hello"


def targets(called: Called) -> Iterator[Target]:
    """All operations of the document."""
    document = called.document
    for template, operations in document["paths"].items():
        for method, operation in operations.items():
            yield _target(called, template, method.upper(), operation, document)


def _target(called: Called, template: str, method: str, operation: Any, document: dict[str, Any]) -> Target:
    value: dict[str, Any] = {"path": {}, "query": {}, "headers": {}, "body": None}
    needed: dict[str, Any] = {}
    for parameter in operation.get("parameters", ()):
        place = {"path": "path", "query": "query", "header": "headers"}.get(parameter["in"])
        if place is not None:
            found = parameter.get("example") or example(parameter.get("schema", {}), document, parameter["name"])
            value[place][parameter["name"]] = found
            if parameter.get("required") and place == "query":
                needed[parameter["name"]] = found
    queries = [{**needed, name: item} for name, item in value["query"].items()]
    seeds = [{**value, "query": query, "headers": {}} for query in (needed, *queries)] + [{**value, "query": needed}]
    kind = ""
    contents = operation.get("requestBody", {}).get("content", {})
    for kind, content in contents.items():  # noqa: B007  # the last one's name travels; bodies tell themselves
        body = content.get("example") or example(content.get("schema", {}), document)
        seeds = [{**seed, "body": body} for seed in seeds] + seeds
    return Target(
        f"{method} {template}", seeds, lambda value: rendered(method, template, kind, value), called.call, size
    )
