"""Feedback on threads, turns and messages: thumbs, scores, labels, comments, by people or by evaluating programs.

    turnmill.feedback("chat-42", "helpful", True, turn_id=turn.turn_id, comment="to the point", by="ann")

It goes to a separate topic, or to a gateway if TURNMILL_PUBLISH_URL names one. Feedback with the same `id` replaces
the earlier one; a value of None withdraws it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from turnmill.clock import now_ms
from turnmill.environment import load_settings
from turnmill.errors import BrokerError, CallerError, InvalidRecord, Reason
from turnmill.identity import thread_uuid
from turnmill.loop_thread import run_apart
from turnmill.wire.envelope import encode
from turnmill.wire.feedback_record import TOPIC, VERSION, problem_of

if TYPE_CHECKING:
    from turnmill.settings import ClientSettings

Value = float | str | bool | None


def made(thread_id: str, tenant: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a feedback record. `thread_id` is any name of a thread. Raises InvalidRecord."""
    given = {name: value for name, value in fields.items() if value is not None}
    record = {"v": VERSION, "id": str(uuid4()), "at": now_ms(), **given, "thread_id": thread_id}
    record["value"] = fields.get("value")
    if tenant:
        record["tenant"] = tenant
    if (problem := problem_of(record)) is not None:
        raise InvalidRecord(Reason.INVALID_EVENT, problem)
    return {**record, "thread_id": thread_uuid(thread_id, tenant)[0]}


def feedback(
    thread_id: str,
    name: str,
    value: Value,
    *,
    turn_id: str | None = None,
    run_id: str | None = None,
    message: int | None = None,
    comment: str | None = None,
    by: str | None = None,
    id: str | None = None,  # noqa: A002  # as the record calls it
    tenant: str | None = None,
    settings: ClientSettings | None = None,
) -> str:
    """Publish feedback, and return its id when the broker, the spool or the gateway has it.

    Args:
        thread_id: The conversation, by the name that its producer gave it, or its UUID.
        name: What is judged: `helpful`, `correctness`, …
        value: A number, a text, True or False; None withdraws the feedback with this `id`.
        turn_id: The turn that it is about; without `turn_id` and `run_id`, the whole thread.
        run_id: The run that it is about.
        message: The index of a message in the turn, from 0.
        comment: A text of at most 10,000 characters.
        by: The author.
        id: Feedback with the same id replaces the earlier one; by default a new UUID.
        tenant: The tenant; over HTTP, that of the token.
        settings: By default read from the environment.

    Raises:
        CallerError: An argument, or the environment, is wrong.
        BrokerError: The gateway did not accept it.
    """
    fields = {"name": name, "value": value, "turn_id": turn_id, "run_id": run_id, "message": message}
    fields |= {"comment": comment, "by": by, "id": id}
    try:
        record = made(thread_id, tenant, fields)
    except InvalidRecord as error:
        raise CallerError(error.detail) from None
    run_apart(_send(thread_id, record, settings))
    return str(record["id"])


async def _send(name: str, record: dict[str, Any], settings: ClientSettings | None) -> None:
    from turnmill.publish.publisher import Publisher  # noqa: PLC0415  # only for those who publish to Kafka

    settings = settings or load_settings()
    if settings.publish_url is not None:
        await _post(settings, name, record)
        return
    async with Publisher(settings, topic=TOPIC) as publisher:
        await publisher.put(record["thread_id"].encode(), encode(record))
        await publisher.kept()


async def _post(settings: ClientSettings, name: str, record: dict[str, Any]) -> None:
    from turnmill.gateway_call import call  # noqa: PLC0415  # for those who publish over HTTP

    body = {key: value for key, value in record.items() if key not in ("v", "at", "thread_id", "tenant")}
    try:
        await call(settings, "POST", "/v1/threads/{}/feedback", name, json=body)
    except CallerError as error:
        raise BrokerError(f"{settings.publish_url} did not take it: {error}") from None
