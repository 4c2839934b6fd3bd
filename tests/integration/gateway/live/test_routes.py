"""Live streams of a real gateway: each event once, whatever breaks off, restarts, or comes twice."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr

from pipeline.gateway.live import following, tail
from pipeline.gateway.live.tail import EventTail
from pipeline.settings import Settings
from tests.support.gateways import Message, Running, Tokens, client, messages, replayed, running, sse, talk, words
from tests.support.topic_records import publish
from tests.support.waiting import PATIENCE, until
from topics.catalog import EVENTS
from turnmill.control.record import NOW, Command
from turnmill.identity import thread_uuid
from turnmill.publish.publisher import Publisher
from turnmill.wire.envelope import encode

THREAD = thread_uuid("chat-1")[0]


async def send(
    settings: Settings, events: list[dict[str, Any]], pause: float, end: str | None, run: str = "r1"
) -> None:
    async with Publisher(settings) as publisher:
        published = publisher.run(thread_id="chat-1", agent_id="a", dialect="vercel-ai", run_id=run, max_events=3)
        for event in events:
            await published.send(event)
            await asyncio.sleep(pause)
        if end is not None:
            await published.end(end)
        else:
            published.leave()
        await publisher.flush()


async def read_until_end(url: str, rng: random.Random | None = None, **headers: str) -> list[Message]:
    """Follow to the run's end; with `rng`, break off at random places, and go on behind the last id."""
    found: list[Message] = []
    async with client(url) as http:
        while True:
            enough = rng.randint(1, 15) if rng else 10**9
            more = {"Last-Event-ID": found[-1].id} if found else {}
            async with http.stream("GET", "/v1/threads/chat-1/live?wait=true", headers={**headers, **more}) as answer:
                assert answer.status_code == 200, await answer.aread()
                async for message in messages(answer):
                    found.append(message)
                    if message.name == "end":
                        return found
                    if len(found) % (enough + 1) == enough:
                        break


def exact(found: list[Message], events: list[dict[str, Any]]) -> None:
    assert [json.loads(message.data)["event"] for message in found if message.name == "message"] == events
    assert [json.loads(message.data)["end"] for message in found if message.name == "end"] == ["complete"]
    assert len({message.id for message in found}) == len(found)


async def test_what_was_comes_first_and_then_what_comes(gateway: Running, gateway_settings: Settings) -> None:
    events = talk(60)
    await send(gateway_settings, events[:30], 0, None)
    reading = asyncio.create_task(read_until_end(gateway.url))
    await asyncio.sleep(1)
    rest = [
        {"v": 1, "thread_id": THREAD, "run_id": "r1", "agent_id": "a", "dialect": "vercel-ai", "seq": seq, "ts": 5,
         "events": events[seq : seq + 4]}
        for seq in [27, 29, *range(30, len(events), 4), 40, 0]
    ]  # fmt: skip
    rest[-1]["end"] = "complete"
    await publish(gateway_settings, EVENTS, [(THREAD.encode(), encode(one)) for one in rest], pause=0.01)
    exact(await asyncio.wait_for(reading, PATIENCE), events)


async def test_readers_that_break_off_miss_nothing(gateway: Running, gateway_settings: Settings) -> None:
    """At random places, through two gateways by turns; one has no room for what is further back."""
    narrow = gateway_settings.model_copy(update={"gateway_live_bytes": 20_000})
    events = talk(150)
    async with running(narrow) as second:
        readers = [
            asyncio.create_task(read_until_end([gateway, second][seed % 2].url, random.Random(seed)))
            for seed in range(6)
        ]
        sending = asyncio.create_task(send(gateway_settings, events, 0.01, "complete"))
        for reader in readers:
            exact(await asyncio.wait_for(reader, PATIENCE), events)
        await sending
        async with client(second.url) as http, client(gateway.url) as other:
            whole = await replayed(http, "chat-1")
            exact(whole, events)
            after = whole[77].id
            for one in (http, other):
                assert await replayed(one, "chat-1", last_event_id=after) == whole[78:], (
                    "the ids are the same everywhere"
                )


async def test_a_gateway_that_was_restarted_goes_on_exactly(gateway_settings: Settings) -> None:
    events = talk(40)
    await send(gateway_settings, events[:20], 0, None)
    async with running(gateway_settings) as first, client(first.url) as http:
        found: list[Message] = []
        async with http.stream("GET", "/v1/threads/chat-1/live") as answer:
            async for message in messages(answer):
                found.append(message)
                if len(found) == 13:
                    break
    await send(gateway_settings, events, 0, "complete")
    async with running(gateway_settings) as again, client(again.url) as http:
        exact(found + await replayed(http, "chat-1", last_event_id=found[-1].id), events)


async def test_a_stop_ends_streams_that_then_resume(gateway_settings: Settings) -> None:
    await send(gateway_settings, talk(3)[:3], 0, None)
    gateway = Running(gateway_settings)
    async with client(gateway.url) as http, http.stream("GET", "/v1/threads/chat-1/live") as answer:
        lines = answer.aiter_lines()
        while not (await anext(lines)).startswith("id:"):
            pass
        stopping = asyncio.create_task(gateway.stop())
        rest = [line async for line in lines]
        assert "retry: 1000" in rest
        await asyncio.wait_for(stopping, PATIENCE)


async def test_the_ui_stream_of_the_active_run(gateway: Running, http: httpx.AsyncClient) -> None:
    events, stop = talk(30), asyncio.Event()
    url = "/v1/threads/chat-1/live?dialect=vercel-ai"

    async def body() -> Any:
        yield sse(events[:11], done=False)
        await stop.wait()
        yield sse(events[11:])

    assert (await http.get(url + "&wait=true")).status_code == 204
    sending = asyncio.create_task(http.post("/v1/threads/chat-1/runs/r1/stream?dialect=vercel-ai", content=body()))

    async def active() -> list[str]:
        async with http.stream("GET", url + "&wait=true") as answer:
            if answer.status_code != 200:
                return []
            assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
            assert answer.headers["content-type"].startswith("text/event-stream")
            stop.set()
            return [message.data async for message in messages(answer)]

    found = await until(active)
    assert [json.loads(data) for data in found[:-1]] == events
    assert found[-1] == "[DONE]"
    assert (await sending).status_code == 200
    assert (await http.get(url)).status_code == 204, "it is over"


async def test_the_ui_stream_ends_without_an_end(gateway_settings: Settings) -> None:
    settings = gateway_settings.model_copy(update={"terminal_grace": 0.3})
    await send(settings, talk(4), 0, None)
    async with running(settings) as gateway, client(gateway.url) as http:
        answer = await http.get("/v1/threads/chat-1/live?dialect=vercel-ai")
    assert answer.text.endswith("data: [DONE]\n\n")


async def test_the_ui_stream_goes_on_with_the_run_that_the_last_id_is_of(
    gateway: Running, gateway_settings: Settings
) -> None:
    """Of two runs at once, whose records came in any order: what the client has is told by seq, not by place."""
    runs = {"one": talk(8), "two": talk(4)}
    order = [("one", 0, 4), ("two", 0, 3), ("one", 6, 9), ("one", 4, 7), ("two", 3, 10), ("one", 9, 14)]
    records = [
        {"v": 1, "thread_id": THREAD, "run_id": run, "agent_id": "a", "dialect": "vercel-ai", "seq": start, "ts": 5,
         "events": runs[run][start:stop], **({"end": "complete"} if stop >= len(runs[run]) else {})}
        for run, start, stop in order
    ]  # fmt: skip
    await publish(gateway_settings, EVENTS, [(THREAD.encode(), encode(one)) for one in records])
    async with client(gateway.url) as http:
        places = {(json.loads(one.data)["run_id"], one.seq): one.id for one in await replayed(http, "chat-1")}
        for (run, seq), place in places.items():
            if seq == len(runs[run]):
                continue
            query = {"dialect": "vercel-ai", "last_event_id": place}
            async with http.stream("GET", "/v1/threads/chat-1/live", params=query) as answer:
                *rest, last = [message.data async for message in messages(answer)]
            assert [json.loads(data) for data in rest] == runs[run][seq + 1 :], (run, seq)
            assert last == "[DONE]"
        other = await http.get("/v1/threads/chat-2/live", params={"dialect": "vercel-ai"})
        assert other.status_code == 204, "a chat that is new: nothing is to be resumed"


def calls() -> list[dict[str, Any]]:
    """Two calls of the Responses API; the second one is going on."""
    asks = {"type": "turnmill.request", "request": {"input": [{"role": "user", "content": "Hi"}]}}
    first = [{"type": "response.created", "response": {"id": "resp_1"}}, {"type": "response.completed", "response": {}}]
    deltas = [{"type": "response.output_text.delta", "output_index": 0, "delta": f"word {n} "} for n in range(5)]
    second = [{"type": "response.created", "response": {"id": "resp_2"}}, *deltas]
    numbered = [[{**event, "sequence_number": n} for n, event in enumerate(call)] for call in (first, second)]
    return [asks, *numbered[0], asks, *numbered[1]]


@pytest.mark.parametrize(("after", "count"), [(None, 6), (-1, 6), (0, 5), (3, 2), (5, 0)])
async def test_a_client_of_the_responses_api_goes_on_with_its_answer(
    gateway: Running, gateway_settings: Settings, after: int | None, count: int
) -> None:
    settings = gateway_settings.model_copy(update={"terminal_grace": 0.3})
    events, over = calls(), {"type": "response.completed", "response": {"id": "resp_2"}, "sequence_number": 6}
    async with Publisher(settings) as publisher, client(gateway.url) as http:
        run = publisher.run(thread_id="chat-1", agent_id="a", dialect="openai-responses", run_id="r1", max_events=4)
        for event in events:
            await run.send(event)
        await publisher.flush()
        query = {"dialect": "openai-responses", **({} if after is None else {"starting_after": after})}

        async def read() -> list[str]:
            async with http.stream("GET", "/v1/threads/chat-1/live", params=query) as answer:
                if answer.status_code != 200:
                    return []
                await run.send(over)
                await run.end("complete")
                return [message.data async for message in messages(answer)]

        found = await until(read)
    *told, last = found
    assert last == "[DONE]"
    assert [json.loads(data) for data in told] == [*events[len(events) - count :], over]


async def test_an_answer_ends_where_the_next_one_begins(gateway: Running, gateway_settings: Settings) -> None:
    events = calls()
    async with Publisher(gateway_settings) as publisher, client(gateway.url) as http:
        run = publisher.run(thread_id="chat-1", agent_id="a", dialect="openai-responses", run_id="r1", max_events=1)
        for event in events[:2]:
            await run.send(event)
        await publisher.flush()

        async def read() -> list[str]:
            query = {"dialect": "openai-responses"}
            async with http.stream("GET", "/v1/threads/chat-1/live", params=query) as answer:
                if answer.status_code != 200:
                    return []
                for event in events[2:]:
                    await run.send(event)
                return [message.data async for message in messages(answer)]

        *told, last = await until(read)
        await run.end("aborted")
    assert ([json.loads(data) for data in told], last) == (events[1:3], "[DONE]")


async def listed(http: httpx.AsyncClient, events: int) -> None:
    """Wait until the gateway knows so many events of the one open run."""

    async def are_there() -> bool:
        return [run["events"] for run in (await http.get("/v1/runs")).json()["runs"]] == [events]

    await until(are_there)


async def test_an_ag_ui_client_connects_in_mid_run(gateway: Running, gateway_settings: Settings) -> None:
    head = [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}, {"type": "TEXT_MESSAGE_START", "messageId": "m"}]
    events = [*head, {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hi"}]
    async with Publisher(gateway_settings) as publisher, client(gateway.url) as http:
        run = publisher.run(thread_id="chat-1", agent_id="a", dialect="ag-ui", run_id="r1")
        for event in events:
            await run.send(event)
        await publisher.flush()
        await listed(http, len(events))
        async with http.stream("GET", "/v1/threads/chat-1/live?dialect=ag-ui") as answer:
            await run.end("complete")
            assert [json.loads(message.data) async for message in messages(answer)] == events

        async def nothing() -> bool:
            answer = await http.get("/v1/threads/chat-1/live?dialect=ag-ui")
            assert answer.headers["content-type"].startswith("text/event-stream")
            return answer.text == ": no run is active\n\n"

        await until(nothing)  # the end may not be known yet


STOPPED = Command("c1", THREAD, "r1", None, "stop", NOW, "ann", 1, 2)
ENDS = {
    "vercel-ai": ['{"type":"abort"}', "[DONE]"],
    "ag-ui": ['{"type":"RUN_ERROR","code":"run_stopped","message":"the run was stopped by ann"}'],
    "openai-responses": ["[DONE]"],
}


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("dialect", ENDS)
async def test_a_stopped_run_ends_as_its_sdk_ends_one(
    gateway: Running, gateway_settings: Settings, dialect: str, *, finished: bool
) -> None:
    """Its end is said once: a stop may come behind the end of what its SDK says."""
    end = {"vercel-ai": "finish", "ag-ui": "RUN_FINISHED", "openai-responses": "response.completed"}[dialect]
    events = [{"type": "first"}, *([{"type": end}] if finished else [])]
    async with Publisher(gateway_settings) as publisher, client(gateway.url) as http:
        run = publisher.run(thread_id="chat-1", agent_id="a", dialect=dialect, run_id="r1")
        run.stopped.tell(STOPPED)
        await run.send(events[0])
        await publisher.flush()
        await listed(http, 1)
        async with http.stream("GET", "/v1/threads/chat-1/live", params={"dialect": dialect}) as answer:
            for event in events[1:]:
                await run.send(event)
            await run.acknowledge()
            await run.end("aborted")
            found = [message.data async for message in messages(answer)]
    assert [json.loads(one) for one in found[: len(events)]] == events
    done = [one for one in ENDS[dialect] if one == "[DONE]"]
    assert found[len(events) :] == (done if finished else ENDS[dialect])


async def test_what_never_comes_holds_up_no_ui_stream(
    gateway: Running, gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.gateway.live.routes.EARLY_BYTES", 1200)  # bytes: three events
    events = talk(9)
    records = [
        {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai", "seq": seq, "ts": 5,
         "events": [events[seq]]}
        for seq in range(9) if seq != 4
    ]  # fmt: skip
    await publish(gateway_settings, EVENTS, [(THREAD.encode(), encode(one)) for one in records])
    found: list[Any] = []
    async with client(gateway.url) as http, http.stream("GET", "/v1/threads/chat-1/live?dialect=vercel-ai") as answer:
        async for message in messages(answer):
            found.append(json.loads(message.data))
            if len(found) == 8:
                break
    assert found == events[:4] + events[5:9]


async def test_a_reader_of_nothing_old_misses_nothing_new(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    """It breaks off before its first event, and has an id all the same."""
    await send(gateway_settings, words(3), 0, None)
    async with http.stream("GET", "/v1/threads/chat-1/live?replay=none") as answer:
        first = await anext(answer.aiter_lines())
    await send(gateway_settings, words(6), 0, "complete")
    found = await replayed(http, "chat-1", replay="none", last_event_id=first.removeprefix("id: "))
    assert [message.seq for message in found] == [3, 4, 5, 6]


@pytest.mark.parametrize(("replay", "runs"), [("recent", ["over", "open"]), ("open", ["open"]), ("none", [])])
async def test_how_much_comes_first(
    http: httpx.AsyncClient, gateway_settings: Settings, replay: str, runs: list[str]
) -> None:
    await send(gateway_settings, words(3), 0, "complete", run="over")
    await send(gateway_settings, words(3), 0, None, run="open")
    found = await replayed(http, "chat-1", replay=replay)
    assert list(dict.fromkeys(json.loads(message.data)["run_id"] for message in found)) == runs


async def test_ids_that_are_none_are_refused(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    await send(gateway_settings, words(3), 0, "complete")
    (first, *_) = await replayed(http, "chat-1")
    partition, _, _ = first.id.partition("-")
    for bad in ("x", "1.2", f"{partition}-99999.0", f"{int(partition) + 1}-0.0", "\u00e9"):
        answer = await http.get("/v1/threads/chat-1/live", params={"last_event_id": bad})
        assert (answer.status_code, answer.json()["type"]) == (400, "/docs#bad-event-id"), bad
    assert (await http.get("/v1/threads/chat-2/live")).status_code == 404


async def test_five_hundred_readers_share_one_consumer(gateway: Running, gateway_settings: Settings) -> None:
    events = talk(30)
    await send(gateway_settings, events[:10], 0, None)
    async with client(gateway.url) as http:
        ready = asyncio.Semaphore(0)

        async def read() -> list[str]:
            found = []
            async with http.stream("GET", "/v1/threads/chat-1/live") as answer:
                async for message in messages(answer):
                    if not found:
                        ready.release()
                    found.append(message.id)
                    if message.name == "end":
                        break
            return found

        readers = [asyncio.create_task(read()) for _ in range(500)]
        for _ in readers:
            await asyncio.wait_for(ready.acquire(), PATIENCE)
        metrics = (await http.get("/metrics")).text
        assert "turnmill_gateway_live_readers 500.0" in metrics
        await send(gateway_settings, events, 0, "complete")
        found = await asyncio.wait_for(asyncio.gather(*readers), PATIENCE)
    assert len(found[0]) == len(events) + 1
    assert all(one == found[0] for one in found)
    assert len(gateway.app.state.gateway.service(EventTail)._idle) <= 4


async def test_who_looks_for_nothing_reads_nothing(
    guarded: Running, gateway_settings: Settings, tokens: Tokens
) -> None:
    """Found by the review: a place at the beginning and an unknown thread made a gateway read a whole partition."""
    await send(gateway_settings, talk(3), 0, "complete")
    async with client(guarded.url, tokens.operator) as operator, client(guarded.url, tokens.globex) as other:
        [first, *_] = await replayed(operator, "chat-1")
        partition = int(first.id.partition("-")[0])
        answer = await other.get(f"/v1/threads/{uuid4()}/live", headers={"Last-Event-ID": f"{partition}-0.0"})
        assert answer.status_code == 404


async def test_a_page_is_bounded_by_what_is_read(gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of few records in many gives its consumer back after each page, and misses nothing."""
    events = talk(40)
    await send(gateway_settings, events[:20], 0, None)
    async with Publisher(gateway_settings) as publisher:
        for number in range(30):
            run = publisher.run(thread_id=f"other-{number}", agent_id="a", dialect="vercel-ai", max_events=3)
            for event in events:
                await run.send(event)
            await run.end("complete")
        await publisher.flush()
    await send(gateway_settings, events, 0, "complete")
    monkeypatch.setattr(tail, "SCAN_BYTES", 1000)
    narrow = gateway_settings.model_copy(update={"gateway_live_bytes": 2000})
    async with running(narrow) as gateway, client(gateway.url) as http:
        exact(await replayed(http, "chat-1"), events)


async def test_a_stream_ends_when_its_token_is_revoked(
    gateway_settings: Settings, tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "RECHECK_INTERVAL", 0.0)
    file = tmp_path / "tokens.jsonl"
    file.write_text(tokens.setting)
    settings = gateway_settings.model_copy(update={"gateway_tokens": SecretStr(str(file))})
    envelope = {"v": 1, "thread_id": THREAD, "run_id": "r1", "agent_id": "a", "dialect": "vercel-ai", "tenant": "acme"}
    async with running(settings) as gateway, client(gateway.url, tokens.acme) as http:
        async with http.stream("GET", f"/v1/threads/{THREAD}/live?wait=true") as answer, asyncio.timeout(PATIENCE):
            file.write_text(Tokens().setting)
            records = [{**envelope, "seq": n, "ts": 5, "events": [event]} for n, event in enumerate(talk(9)[:9])]
            events = [(THREAD.encode(), encode(record)) for record in records]
            await publish(gateway_settings, EVENTS, events, pause=0.3)
            found = [message async for message in messages(answer)]
        assert len(found) < 9
