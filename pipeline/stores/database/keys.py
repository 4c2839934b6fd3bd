"""The names of threads, turns and agents in rows: text that every database can store; turns as bytes. Cursors. Pure."""

import base64
import binascii
import re
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import orjson

from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.errors import CallerError

NO_TENANT = ""  # names the threads without a tenant; None means any tenant
CANONICAL: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UUID_BYTES: Final = 16
FILLER: Final = b"\xff"  # a byte that UTF-8 never contains


class UsageNames(NamedTuple):
    """The names under which usage is counted: a row of `usage_names`."""

    tenant: str | None
    model: str | None
    provider: str | None
    agent_id: str
    prompt: str | None = None  # of system prompt and tools, as `pipeline.turns.requests.prompt_of` has it
    origin: str = ""  # as `pipeline.stores.costs.rows` has it
    service_tier: str = ""
    purpose: str = ""  # of a call beside the answer
    user: str | None = None  # this and the next ones: labels of the run
    environment: str | None = None
    project: str | None = None
    branch: str | None = None
    tags: str | None = None  # as JSON


class Agent(NamedTuple):
    """An agent under a name: a row of `agents`."""

    agent_id: str
    agent_name: str | None


class Label(NamedTuple):
    """A label of a tenant's runs: a row of `labels`; `kind` as in `turnmill.labels`."""

    tenant: str
    kind: str
    label: str


def key_of(record: TurnRecord) -> ThreadKey:
    """Return the key of a record's thread; its tenant as text, as in rows: a foreign record's may be any JSON."""
    tenant = cast("dict[str, Any]", record).get("tenant")  # compiled code trusts a TypedDict
    return ThreadKey(record["thread_id"], str(tenant) if tenant else None)


def key_text(key: ThreadKey) -> str:
    """Return the text of a key as the columns `thread_key` hold it."""
    return column_text(key.text) or ""


def id_and_tenant(key: ThreadKey) -> tuple[str, str]:
    """Return a key as the columns `thread_id` and `tenant` of `threads` hold it."""
    return column_text(key.thread_id) or "", column_text(key.tenant) or NO_TENANT


def exact_name(key: ThreadKey) -> list[Any] | None:
    """Return the key as JSON if these columns contain an escape or a hash instead of a part of it, else None."""
    return None if id_and_tenant(key) == (key.thread_id, key.tenant or NO_TENANT) else list(key)


def thread_of(row: Any) -> ThreadKey:
    """Return the key of a row that has the columns `thread_id`, `tenant` and `name` of `threads`."""
    return ThreadKey.of(row.thread_id, row.tenant) if row.name is None else ThreadKey.of(*row.name)


def turn_bytes(turn_id: str) -> bytes:
    """Return a turn's id as in `turns`: the 16 bytes of a UUID, or the text, padded to more than 16 bytes."""
    if CANONICAL.fullmatch(turn_id):
        return bytes.fromhex(turn_id.replace("-", ""))
    return (column_text(turn_id) or "").encode().ljust(UUID_BYTES + 1, FILLER)


def turn_text(turn_id: bytes) -> str:
    """Return the id that `turn_bytes` was given."""
    if len(turn_id) == UUID_BYTES:
        return str(UUID(bytes=turn_id))
    return turn_id.rstrip(FILLER).decode()


LARGEST: Final = 2**63 - 1


def encode_cursor(value: int, number: int) -> str:
    """Return the position after a row as an opaque, URL-safe text: the value of its sort column, and its id."""
    return base64.urlsafe_b64encode(orjson.dumps([value, number])).decode().rstrip("=")


def decode_cursor(cursor: str, of: str = "list", most: tuple[int, int] = (LARGEST, LARGEST)) -> tuple[int, int]:
    """Return what `encode_cursor` was given. Raises CallerError for other texts, and for numbers above `most`."""
    try:
        position: Any = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        value, number = position
    except (binascii.Error, ValueError, TypeError):
        value = number = None
    if type(value) is not int or type(number) is not int or not (0 <= value <= most[0] and 0 <= number <= most[1]):
        raise CallerError(f"the cursor is not one that this {of} gave: start again without one")
    return value, number
