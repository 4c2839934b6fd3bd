"""The doors of the OpenAPI document, bodies that fit them, and knocking at them: what the machine's abuses are made of.

A door is an operation. A door that is added is abused without a line written for it.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import httpx

from tests.attack.attack import Attack
from tests.attack.commanding import AT_ONCE
from tests.attack.erasing import SETTINGS
from tests.attack.stage import Stage

AS_JSON: Final = {"Content-Type": "application/json"}


class Door(NamedTuple):
    """An operation. `flags`: its boolean parameters; `headers`: its own; `schema`: of its JSON body; `endless`: its
    stream never ends.
    """

    method: str
    path: str
    needs: frozenset[str]
    flags: tuple[str, ...]
    headers: tuple[str, ...]
    schema: Mapping[str, Any] | None
    endless: bool


class Doors:
    """The doors of a gateway, and bodies that fit them."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._types = document["components"]["schemas"]
        self.every = [self._door(path, *pair) for path, pairs in document["paths"].items() for pair in pairs.items()]

    def writing(self, *scopes: str) -> list[Door]:
        """Return the doors that take JSON and need one of these scopes; by default all that take JSON."""
        taking = [door for door in self.every if door.schema is not None and door.method != "get"]
        return [door for door in taking if not scopes or door.needs & {*scopes}]

    def body(self, door: Door, text: str, value: Any) -> dict[str, Any]:
        """A body with this text wherever a text may stand, and this value wherever any may."""
        fields = self._resolved(door.schema or {}).get("properties", {})
        made = {name: self._sample(schema, text, value) for name, schema in fields.items()}
        return {name: sample for name, sample in made.items() if sample is not None}

    def least(self, door: Door, text: str, value: Any) -> dict[str, Any]:
        """A body with nothing that may be left out."""
        needed = self._resolved(door.schema or {}).get("required", ())
        return {name: sample for name, sample in self.body(door, text, value).items() if name in needed}

    def of(self, path: str) -> list[Door]:
        """Return the doors that change an object by its id, which a POST to this path has made."""
        return [door for door in self.every if door.path.startswith(path + "/{") and door.method != "get"]

    def fields(self, door: Door) -> list[str]:
        return list(self._resolved(door.schema or {}).get("properties", {}))

    def _sample(self, schema: Mapping[str, Any], text: str, value: Any) -> Any:
        schema = self._resolved(schema)
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type"):
            case "string" if "pattern" in schema:
                return next((form for form in forms(text) if re.search(schema["pattern"], form)), None)
            case "string":
                return None if "format" in schema else text[: schema.get("maxLength", len(text))]
            case "boolean":
                return bool(value)
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "array":
                return [self._sample(schema["items"], text, value)]
            case "object":
                return {}
        return value

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" in schema:
            return self._types[schema["$ref"].rpartition("/")[2]]
        wide = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
        return self._resolved(wide[-1]) if wide else schema

    def _door(self, path: str, method: str, operation: Mapping[str, Any]) -> Door:
        named = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
        flags = tuple(one["name"] for one in named if one["schema"].get("type") == "boolean")
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        answers = operation["responses"].get("200", {}).get("content", {})
        needs = frozenset(scope for need in operation.get("security", ()) for scope in need.get("token", ()))
        headers = tuple(one["name"] for one in operation.get("parameters", ()) if one["in"] == "header")
        return Door(method, path, needs, flags, headers, body.get("schema"), "text/event-stream" in answers)


async def doors_of(stage: Stage) -> Doors:
    return await doors_at(stage.operator)


async def doors_at(caller: httpx.AsyncClient) -> Doors:
    return Doors((await caller.get("/openapi.json")).json())


def behind(door: Door, made: str) -> str:
    """A door's path up to an id that was given: `/v1/views/{view_id}` -> `/v1/views/` and that id."""
    return f"{door.path[: door.path.index('{')]}{made}{door.path[door.path.index('}') + 1 :]}"


def filled(door: Door, thread: str, number: int = 0) -> str:
    """A door's path: of this thread, its run r1, and an id of this number for all else."""
    ids = {"thread_id": thread, "run_id": "r1", "sha256": "0" * 64, "partition": "0", "offset": str(number)}
    names = [part[1:-1] for part in door.path.split("/") if part.startswith("{")]
    return door.path.format_map({name: ids.get(name, f"q{number}") for name in names})


async def many(caller: httpx.AsyncClient, door: Door, thread: str, body: Mapping[str, Any], times: int) -> set[int]:
    """Knock so many times, several at once -> the statuses."""
    slots = asyncio.Semaphore(AT_ONCE)
    content = json.dumps(body).encode()

    async def knock(number: int) -> int:
        async with slots:
            answer = await caller.request(door.method, filled(door, thread, number), content=content, headers=AS_JSON)
        return answer.status_code

    return {*await asyncio.gather(*map(knock, range(times)))}


def forms(text: str) -> tuple[str, ...]:
    """A text in each form that a field may want."""
    return text, f"https://{text}.example/", f"#/threads?user={text}"


async def given(
    caller: httpx.AsyncClient, doors: Doors, door: Door, thread: str, text: str, number: int = 0
) -> dict[str, Any]:
    """Leave a text at a door, in the form that it takes -> its answer; an empty one where it takes none."""
    headers = dict.fromkeys(door.headers, text)
    for form in forms(text):
        body = doors.least(door, form, form)
        answer = await caller.request(door.method, filled(door, thread, number), json=body, headers=headers)
        if answer.status_code < 300:
            return dict(answer.json())
    return {}


async def first_lines(caller: httpx.AsyncClient, path: str, count: int) -> list[str]:
    """The first events of a stream, as many as come within ten seconds."""
    seen: list[str] = []
    try:
        async with asyncio.timeout(10), caller.stream("GET", path) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    seen.append(line)
                if len(seen) == count:
                    break
    except TimeoutError:
        pass
    return seen


async def status_of(caller: httpx.AsyncClient, door: Door, path: str) -> str:
    answer = await caller.get(path)
    return f"{door.method} {door.path}: {answer.status_code}" if answer.status_code >= 500 else ""


def reading(doors: Doors) -> Iterator[Door]:
    return (door for door in doors.every if door.method == "get" and not door.endless and door.needs)


async def where(caller: httpx.AsyncClient, doors: Doors, thread: str, mark: str) -> list[str]:
    """The doors whose answers have a word."""
    said = [door for door in reading(doors) if mark in (await caller.get(filled(door, thread))).text]
    streams = [door for door in doors.every if door.endless and "thread_id" not in door.path]
    said += [door for door in streams if any(mark in line for line in await first_lines(caller, door.path, 100))]
    return [f"{door.method} {door.path} has the word" for door in said]


def attacks(abuses: Iterable[tuple[str, Any, str]]) -> tuple[Attack, ...]:
    """Of (name, what runs, what it may not)."""
    return tuple(
        Attack(f"machine: {name}", (run.__doc__ or "").strip(), may_not, run, SETTINGS) for name, run, may_not in abuses
    )
