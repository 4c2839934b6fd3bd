"""The calls of a stored thread: with the events that the topic has of it, else rebuilt; and frozen into a file."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from pipeline.assembly.offline import assemble
from pipeline.cli.mock.calls import Call, thawed
from pipeline.cli.mock.reading import calls_in
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.worker.assemble.limits import redaction_of
from tests.support.topic_records import publish, writing
from tests.support.upstream import chat_chunks
from tests.support.workers import environment
from topics.catalog import EVENTS
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import encode

ASKED = {
    "model": "gpt-5",
    "stream": True,
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Write to ann@example.org."}],
}
EVENTS_OF = [{"object": "turnmill.request", "request": ASKED}, *chat_chunks("Gladly, ", "to bob@exam", "ple.org.")]


def run(chat: str) -> dict[str, Any]:
    return {
        "v": 1,
        "thread_id": thread_uuid(chat)[0],
        "run_id": f"r-{chat}",
        "agent_id": "a",
        "dialect": "openai-chat",
        "seq": 0,
        "ts": 1_768_903_200_000,
        "dt": [10 * n for n in range(len(EVENTS_OF))],
        "events": EVENTS_OF,
        "end": "complete",
        "run": {"external_id": chat},
    }


async def stored(settings: Settings, chat: str, redact: str | None = None) -> Settings:
    """A thread in the store, as a worker with these rules of redaction has made it."""
    settings = settings.model_copy(update={"redact": redact})
    rules, records = (redaction_of(settings), assemble(DIALECTS["openai-chat"], [run(chat)], keep_requests=True)[0])
    async with await ThreadStore.open(settings.store_url, migrate=True) as store:
        await write_turns(store, [one if rules is None else rules.record(one) for one in records])
    return settings


async def calls(settings: Settings, chat: str) -> tuple[Call, str | None]:
    contents = ContentStore.of(settings)
    (call,), why = await calls_in(settings, settings.store_url, contents, [chat], None, redaction_of(settings))
    return call, why


async def test_its_own_events_are_sent_where_they_say_what_is_stored(applied_settings: Settings) -> None:
    settings = await stored(applied_settings, "chat")
    call, why = await calls(settings, "chat")
    assert (call.stream.recorded, call.request, why) == (False, {**ASKED}, None)
    await publish(settings, EVENTS, [(run("chat")["thread_id"].encode(), encode(run("chat")))] * 2)
    call, why = await calls(settings, "chat")
    assert (call.stream.recorded, why) == (True, None)
    assert [(at, event) for at, event in call.stream.events] == [
        (10 * n + 10, one) for n, one in enumerate(EVENTS_OF[1:])
    ]


async def test_events_are_found_in_any_partitions(applied_settings: Settings) -> None:
    settings, records = await stored(applied_settings, "chat-1"), []
    whole = run("chat-1")
    for number, event in enumerate(EVENTS_OF):
        part = {**whole, "thread_id": whole["thread_id"].upper(), "seq": number, "events": [event], "dt": [0]}
        records.append(encode(part if number == len(EVENTS_OF) - 1 else {**part, "end": None}))
    async with writing(settings, EVENTS) as write:
        for number, value in enumerate(records):
            await write(whole["thread_id"].upper().encode() if number % 2 else None, value, number % 4)
    call, why = await calls(settings, "chat-1")
    assert why is None
    assert call.stream.recorded


async def test_what_redaction_took_out_is_not_sent_by_events_that_still_have_it(applied_settings: Settings) -> None:
    settings = await stored(applied_settings, "chat", "email")
    await publish(settings, EVENTS, [(run("chat")["thread_id"].encode(), encode(run("chat")))])
    call, _ = await calls(settings, "chat")
    assert not call.stream.recorded
    assert "example.org" not in str(call)
    assert "Gladly, " in str(call.whole)


async def test_a_frozen_thread_needs_neither_broker_nor_store(applied_settings: Settings, tmp_path: Path) -> None:
    settings, file = await stored(applied_settings, "chat"), tmp_path / "chat.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pipeline", "mock", "chat", "--freeze", str(file)),
        env=environment(settings),
        stdout=-1,
        stderr=-1,
    )
    out, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    assert out.decode() == f"1 call -> {file}\n"
    assert "1 answer of 1 rebuilt from the store" in problems.decode()
    (call,) = thawed(file.read_text(), "it")
    assert call.request == ASKED
