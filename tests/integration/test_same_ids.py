"""Two tenants whose threads and runs have the same ids: each operation, command and topic keeps them apart.

What there is to try is read from the OpenAPI document, the command line and the catalog of topics: a new operation,
command or topic fails here until it has a case.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
import httpx
import pytest
from pydantic import SecretStr

from pipeline.__main__ import cli
from pipeline.settings import Settings
from tests.support.commands import turnmill
from tests.support.endpoints import endless_paths, facts_of_routes
from tests.support.gateways import Running, Tokens, client, running, sse, talk
from tests.support.waiting import PATIENCE, until
from tests.support.workers import WorkerProcess
from turnmill.identity import thread_uuid, turn_id

SHARED: Final = thread_uuid("shared", "acme")[0]  # as anybody can compute it
ALONE: Final = thread_uuid("alone", "acme")[0]  # only acme has it
RUN: Final = "r"
WORDS: Final = {"acme": "acme-says-this", "globex": "globex-says-that", "operator": "nobody-says-it"}
TENANT: Final = {"acme": "acme", "globex": "globex", "operator": ""}

FACTS: Final = facts_of_routes()
OTLP = ("/v1/traces", "/v1/logs")  # exporters name the type of their bodies
MADE: Final = ("put", "/v1/threads/{thread_id}/datasets/{dataset}")  # its path names what it makes
ENDLESS: Final = endless_paths(without="follow")  # what is known already comes at once, and then what is new
# With an id: what a command needs beside it. A command that isn't here takes the id of no thread.
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "datasets add": ("golden", SHARED),
    "datasets remove": ("golden", SHARED),
    "export": (SHARED,),
    "feedback": (SHARED,),
    "import": ("--from", "vercel-ai", "--publish", "--thread", SHARED, "HISTORY"),
    "publish": ("STREAM", "--dialect", "vercel-ai", "--thread", SHARED, "--run", RUN),
    "replay": ("--thread", SHARED, "--json"),
    "rerun": (SHARED,),
    "runs": ("--thread", SHARED, "--json"),
    "answer": (SHARED, "a", "true"),
    "steer": (SHARED, "on"),
    "stop": (SHARED,),
    "threads delete": (SHARED, "--yes"),
    "threads hold": (SHARED,),
    "threads show": (SHARED,),
    "threads steps": (SHARED, "--json"),
    "usage": ("--thread", SHARED, "--json"),
}
ASKS: Final = (
    "threads show",
    "threads steps",
    "threads delete",
    "threads hold",
    "datasets add",
    "datasets remove",
    "export",
    "feedback",
    "rerun",
)  # whose it is, of several
WITHOUT_IDS: Final = {
    *(
        "alerts",
        "audit",
        "mock",  # of a thread that is found as that of `export` is
        "usage recompute",
        "usage reconcile",
        "usage tools",
        "archive compact",
        "archive expire",
        "assemble",
        "bench",
        "budgets",
        "convert",
        "datasets list",
        "demo",
        "dev",
        "dlq list",
        "dlq redrive",
        "dlq show",
        "doctor",
        "down",
        "gateway",
        "gateway token",
    ),
    *(
        "hash",
        "mcp",
        "run",
        "schema",
        "search",
        "settings",
        "store check",
        "store expire",
        "store index",
        "store migrate",
    ),
    *(
        "store restore",
        "store sql",
        "store sums",
        "tenants check",
        *("tokens list", "tokens make", "tokens revoke", "tokens rotate"),
        "tenants erase",
        "threads list",
        "topics apply",
        "topics asyncapi",
        "topics describe",
        "topics list",
        "up",
    ),
    *("validate", "webhooks", "worker"),
}


def said(word: str, count: int = 3) -> list[dict[str, Any]]:
    return [{**event, "delta": f"{word} "} if "delta" in event else event for event in talk(count)]


@pytest.fixture
async def alike(applied_settings: Settings) -> AsyncIterator[tuple[Running, Tokens]]:
    """A gateway, and a worker that has stored the same run of two tenants and of nobody, and one of acme alone."""
    tokens = Tokens()
    changes = {"gateway_port": 0, "gateway_rate": 0.0, "checkpoint_interval": 0.2}
    settings = applied_settings.model_copy(update={**changes, "gateway_tokens": SecretStr(tokens.setting)})
    worker = WorkerProcess(settings.model_copy(update={"gateway_tokens": None})).start()
    try:
        async with running(settings.model_copy(update={"webhooks": SecretStr("[]")})) as gateway:
            for name, token in callers(tokens).items():
                async with client(gateway.url, token) as http:
                    for thread in (SHARED, *([ALONE] if name == "acme" else [])):
                        path = f"/v1/threads/{thread}/runs/{RUN}/stream"
                        facts = {
                            "dialect": "vercel-ai",
                            "agent_name": WORDS[name],
                            "agent_id": WORDS[name],
                            "model_name": WORDS[name],
                        }
                        answer = await http.post(path, params=facts, content=sse(said(WORDS[name])))
                        assert answer.status_code == 200, answer.text
            for name, token in callers(tokens).items():
                async with client(gateway.url, token) as http:
                    await until(lambda http=http, name=name: stored(http, name), worker.text)
            yield gateway, tokens
    finally:
        worker.end()


async def stored(http: httpx.AsyncClient, name: str) -> bool:
    answer = await http.get(f"/v1/threads/{SHARED}", params={"tenant": TENANT[name]} if name == "operator" else {})
    return answer.status_code == 200 and WORDS[name] in answer.text


def callers(tokens: Tokens) -> dict[str, str]:
    return {"acme": tokens.acme, "globex": tokens.globex, "operator": tokens.operator}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path, and what the query needs, of each operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needed = [one for one in operation.get("parameters", ()) if one["in"] == "query" and one.get("required")]
            yield method, path, {one["name"]: one["schema"].get("enum", ["says"])[-1] for one in needed}


def filled(path: str, thread: str) -> str:
    given = {
        "{thread_id}": thread,
        "{dataset}": "golden",
        "{run_id}": RUN,
        "{partition}": "0",
        "{offset}": "0",
        "{sha256}": "0" * 64,
    }
    for name, value in given.items():
        path = path.replace(name, value)
    return path


async def answer_of(http: httpx.AsyncClient, method: str, path: str, query: dict[str, Any]) -> tuple[int, str]:
    """Status and text, without the marks of hits; of a stream without an end what comes within some seconds."""
    content = sse(said("intruder")) if method == "post" else None
    text = ""
    asked = {"follow": "false", "group_by": "agent,model,thread", "by": "agent", **query}
    async with http.stream(method.upper(), path, params=asked, content=content) as answer:
        with suppress(TimeoutError):
            async with asyncio.timeout(1 if path in ENDLESS else 10):
                async for chunk in answer.aiter_text():
                    text += chunk
        return answer.status_code, text.replace("<mark>", "").replace("</mark>", "")


def others(name: str) -> list[str]:
    return [word for other, word in WORDS.items() if other != name]


async def test_each_operation(alike: tuple[Running, Tokens]) -> None:
    gateway, tokens = alike
    document = gateway.app.openapi()
    found = list(operations(document))
    assert {(method, path) for method, path, _ in found} <= FACTS.keys(), "each operation is of a row of PARTS"
    for name in ("acme", "globex"):
        async with client(gateway.url, callers(tokens)[name]) as http:
            for method, path, query in found:
                takes_json = "application/json" in document["paths"][path][method].get("requestBody", {}).get(
                    "content", {}
                )
                await owns(http, name, method, path, query, takes_json=takes_json)
    computed = (ALONE, turn_id(ALONE, RUN), f"{ALONE}/acme", f"{ALONE}%2Facme", "alone", ALONE.upper())
    async with client(gateway.url, tokens.globex) as http:
        await no_parameter_leads_to_another_tenant_s(gateway, http)
        for method, path, query in found:
            for thread in computed if "{thread_id}" in path else computed[:1]:
                for more in ({}, {"thread": thread, "search": thread, "external_id": thread, "wait": "true"}):
                    status, text = await answer_of(http, method, filled(path, thread), {**query, **more})
                    assert status < 500, (method, path, thread, text)
                    assert WORDS["acme"] not in text, (method, path, thread, text)
            status, text = await answer_of(http, method, filled(path, SHARED), {**query, "tenant": "acme"})
            assert WORDS["acme"] not in text, (method, path, text)
    await who_only_publishes_reads_nothing(gateway, tokens)
    await only_ones_own_is_deleted(gateway, tokens)


async def who_only_publishes_reads_nothing(gateway: Running, tokens: Tokens) -> None:
    """A token of acme's with the scope `publish` alone: it may ask for budgets, and hears of no thread."""
    document = gateway.app.openapi()
    async with client(gateway.url, tokens.sender) as http:
        for method, path, query in operations(document):
            needs = [need for one in document["paths"][path][method].get("security", ()) for need in one["token"]]
            if FACTS[method, path].threads == "published":
                continue
            status, text = await answer_of(http, method, filled(path, SHARED), query)
            assert (status == 403) == bool(needs and "publish" not in needs), (method, path, status, text)
            assert not [word for word in WORDS.values() if word in text], (method, path, text)


def values(schema: dict[str, Any]) -> list[str]:
    """What is tried of a parameter: all of a list; else what acme's agent, thread, run and turn are called."""
    kinds = [schema, *schema.get("anyOf", ())]
    listed = [str(value) for kind in kinds for value in kind.get("enum", ())]
    if listed or {"integer", "boolean"} & {kind.get("type") for kind in kinds}:
        return listed or ["1"]
    return [WORDS["acme"], "acme", RUN, ALONE, turn_id(ALONE, RUN)]


async def no_parameter_leads_to_another_tenant_s(gateway: Running, http: httpx.AsyncClient) -> None:
    """`http` is globex's, with the thread of the same id as acme's, and with acme's alone."""
    tried = 0
    document = gateway.app.openapi()
    for method, path, needed in operations(document):
        given = [one for one in document["paths"][path][method].get("parameters", ()) if one["in"] == "query"]
        threads = (SHARED, ALONE) if "{thread_id}" in path else (SHARED,)
        for name, value in ((one["name"], value) for one in given for value in values(one["schema"])):
            if method != "get" or name == "follow":
                continue
            for thread in threads:
                query = {**needed, name: value}
                status, text = await answer_of(http, method, filled(path, thread), query)
                assert status < 500, (method, path, query, text)
                assert WORDS["acme"] not in text.replace(value, ""), (method, path, query, text)
                tried += 1
    assert tried > 100


async def owns(
    http: httpx.AsyncClient, name: str, method: str, path: str, query: dict[str, Any], *, takes_json: bool
) -> None:
    threads = FACTS[method, path].threads
    if threads == "deleted":
        return
    status, text = await answer_of(http, method, filled(path, SHARED), query)
    assert not [word for word in others(name) if word in text], (name, method, path, text)
    another = "{" in path.replace("{thread_id}", "").replace("{run_id}", "")  # an id that nothing here has
    names_another = another and (method, path) != MADE
    expected = (
        415 if path in OTLP else 403 if threads == "refused" else 422 if takes_json else 404 if names_another else 200
    )
    assert status == expected, (name, method, path, status, text)
    if threads == "own":
        assert WORDS[name] in text or (path.endswith(("/usage", "/tools")) and '"turns"' in text), (
            name,
            method,
            path,
            text,
        )
    if threads == "none":
        assert WORDS[name] not in text, (name, method, path, text)


async def only_ones_own_is_deleted(gateway: Running, tokens: Tokens) -> None:
    path = f"/v1/threads/{SHARED}"
    async with client(gateway.url, tokens.operator) as http:
        for method in ("get", "delete"):
            answer = await http.request(method, path)
            assert answer.status_code == 409, answer.text
            assert all(repr(tenant) in answer.text or tenant in answer.text for tenant in ("acme", "globex"))
    async with client(gateway.url, tokens.acme) as http:
        assert (await http.put(f"{path}/hold")).json()["changed"]
    async with client(gateway.url, tokens.globex) as http:
        assert not (await http.delete(f"{path}/hold")).json()["changed"], "each tenant's hold is of its own thread"
        for method in ("put", "delete"):
            assert (await http.request(method, f"/v1/threads/{ALONE}/hold")).status_code == 404
        assert (await http.delete(path)).status_code == 200
        assert (await http.get(path)).status_code == 404
        assert (await http.delete(f"/v1/threads/{ALONE}")).status_code == 404
    async with client(gateway.url, tokens.acme) as http:
        assert (await http.delete(path)).status_code == 409
        assert (await http.delete(f"{path}/hold")).json()["changed"]
    for name in ("acme", "operator"):
        async with client(gateway.url, callers(tokens)[name]) as http:
            assert await stored(http, name), f"{name} keeps its thread"


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """(command, names of its parameters) of each command that does something."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        if command.invoke_without_command and path:
            yield " ".join(path), {parameter.name or "" for parameter in command.params}
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))
    else:
        yield " ".join(path), {str(parameter.name) for parameter in command.params}


def test_each_command_has_a_case() -> None:
    found = dict(commands(cli))
    assert found.keys() == COMMANDS.keys() | WITHOUT_IDS
    named = {name for name, parameters in found.items() if parameters & {"ids", "thread", "thread_id"}}
    assert named == COMMANDS.keys()


async def test_each_command(alike: tuple[Running, Tokens], tmp_path: Path) -> None:
    gateway, _ = alike
    settings = gateway.settings.model_copy(update={"gateway_tokens": None})
    history = tmp_path / "history.json"
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "intruder"}]}
    history.write_text(json.dumps([message]))
    stream = tmp_path / "stream.sse"
    stream.write_bytes(sse(said("intruder")))
    files = {"HISTORY": str(history), "STREAM": str(stream)}

    async def run(name: str, *more: str) -> tuple[int, str]:
        arguments = [files.get(argument, argument) for argument in COMMANDS[name]]
        done = await turnmill(settings, *name.split(), *arguments, *more)
        return done.returncode, done.stdout + done.stderr

    for name in ASKS:
        code, text = await run(name)
        assert code == 2, (name, text)
        assert "--tenant" in text, (name, text)
        assert not [word for word in WORDS.values() if word in text], (name, text)
    for tenant in ("acme", "globex"):
        for name in ("threads show", "export", "usage"):
            code, text = await run(name, "--tenant", tenant)
            assert code == 0, (name, text)
            assert not [word for word in others(tenant) if word in text], (name, tenant, text)
        assert WORDS[tenant] in (await run("export", "--tenant", tenant))[1]
    for name, more in (
        ("publish", ()),
        ("import", ("--tenant", "globex")),
        ("replay", ()),
        ("replay", ("--tenant", "globex")),
    ):
        code, text = await run(name, *more)
        assert code == 0, (name, text)
    await lines_come(lambda: run("export", "--tenant", "globex"), "intruder")
    code, text = await run("threads delete", "--tenant", "globex")
    assert code == 0, text
    for tenant in ("acme", ""):
        code, text = await run("export", "--tenant", tenant)
        assert code == 0, text
        assert "intruder" not in text or tenant == "", text
        assert not [word for word in others("acme" if tenant else "operator") if word in text], text


async def lines_come(look: Callable[[], Any], word: str) -> None:
    async def there() -> bool:
        return word in (await look())[1]

    await until(there, within=PATIENCE)
