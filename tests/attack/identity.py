"""Attacks on whose it is: what a tenant may do to, or learn of, another one's threads by ids that it can compute."""

import asyncio
import hashlib
import json
import time
from pathlib import Path
from typing import Any, Final

import httpx

from pipeline.dialects import FORMATS
from pipeline.stores.content.store import folder
from tests.attack.attack import Attack
from tests.attack.stage import Said, Stage, sentence, spoken
from topics import json_text
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid, turn_id

SLOWEST: Final = 20.0  # seconds of one search, on a busy machine
FUTURE: Final = "2099-01-01T00:00:00Z"


def of_acme(thread: str) -> str:
    """The UUID of a conversation of the victim: anybody can compute it."""
    return thread_uuid(thread, "acme")[0]


def asked(text: str, **more: Any) -> dict[str, Any]:
    turn = {"turn_type": "user", "submitted_at": FUTURE, "parts": [{"part_kind": "user-prompt", "content": text}]}
    return {"type": "user-turn", "turn": {**turn, **more}}


async def all_that(caller: httpx.AsyncClient, thread: str) -> str:
    """Everything that a caller can read anywhere, with a thread's id wherever one may be named."""
    pages = ["/v1/threads?limit=1000", f"/v1/threads?search={thread}", f"/v1/threads?external_id={thread}"]
    pages += [f"/v1/threads/{thread}?inline=true", f"/v1/threads/{thread}/tree", f"/v1/threads/{thread}/usage"]
    pages += [f"/v1/threads/{thread}?format={name}" for name in FORMATS]
    turn = turn_id(of_acme(thread), "r1")
    parts = ("branch=", "branch=r1", f"branch={turn}", "turns=1", f"since_turn={turn}", "partial=true")
    pages += [f"/v1/threads/{thread}?{part}{more}" for part in parts for more in ("", "&tenant=acme")]
    pages += [f"/v1/usage?group_by=thread,agent,model&thread={thread}", "/v1/usage?group_by=thread,agent,tenant"]
    pages += [f"/v1/threads/{thread}/live?follow=false{more}" for more in ("", "&wait=true", "&replay=open&shows=true")]
    pages += [f"/v1/runs?status={status}&thread={thread}" for status in ("open", "waiting")] + ["/v1/runs?status=open"]
    pages += [f"/v1/search?q={thread}", f"/v1/search?q={thread}&in=said&in=thinking&in=results", "/v1/search?q=says"]
    pages += ["/v1/figures/live?follow=false&by=agent", "/v1/status", "/v1/ledger", "/v1/dead-letters"]
    answers = await asyncio.gather(*(caller.get(page) for page in pages))
    for page, answer in zip(pages, answers, strict=True):
        assert answer.status_code < 500, f"{page}: {answer.text}"
    return "\n".join(answer.text for answer in answers)


async def sees_nothing(stage: Stage, said: Said) -> None:
    """The attacker has nothing of what the victim said: neither by the conversation's id nor by its UUID."""
    for name in (said.thread, of_acme(said.thread)):
        found = await all_that(stage.evil, name)
        assert f"{said.thread}-says" not in found, f"the attacker reads words of {said.thread} at {name}"


async def squat(stage: Stage) -> None:
    thread = "order-4711"
    uuid = of_acme(thread)
    dated = await stage.upload(
        stage.evil, uuid, "r0", json.dumps(asked("evil was here")).encode(), dialect="thread-protocol"
    )
    assert dated.status_code < 500, dated.text
    said = await stage.speak(thread)
    await stage.is_whole(said)
    await sees_nothing(stage, said)
    listed = (await stage.acme.get("/v1/threads?limit=1000")).text
    assert uuid in listed, "the victim's list lacks its thread"
    assert "evil was here" not in listed, "the victim's list has the attacker's words"
    await stage.evil.delete(f"/v1/threads/{uuid}")
    await stage.evil.delete(f"/v1/threads/{thread}")
    await stage.is_whole(said)
    more = await stage.upload(stage.acme, thread, "r2", spoken("and so on"))
    assert more.status_code == 200, f"the victim can't go on with its thread: {more.text}"


async def erase_first(stage: Stage) -> None:
    thread = "order-4712"
    uuid = of_acme(thread)
    for name in (uuid, thread):
        await stage.upload(stage.evil, name, "r1", spoken("soon gone"))

        async def gone(name: str = name) -> bool:
            return (await stage.evil.delete(f"/v1/threads/{name}")).status_code in (200, 404)

        await stage.within_progress(gone, lambda: "the attacker's own thread is not deleted")
    said = await stage.speak(thread)
    await stage.is_whole(said)


async def hijack_before(stage: Stage) -> None:
    ends = ({"from_seq": 8, "end": "complete"}, {"from_seq": 0, "end": "aborted"}, {"end": "complete"})
    for number, query in enumerate(ends):
        answer = await stage.upload(stage.evil, of_acme(f"order-4713-{number}"), "r1", b"", **query)
        assert answer.status_code < 500, answer.text
    said = [await stage.speak(f"order-4713-{number}") for number in range(len(ends))]
    for one in said:
        await stage.is_whole(one)
        await sees_nothing(stage, one)


async def hijack_open(stage: Stage) -> None:
    thread = "order-4714"
    said = Said(thread, sentence(thread))
    events = spoken(said.text)
    head = await stage.upload(stage.acme, thread, "r1", events[:20], end="open")
    assert head.status_code == 200, head.text
    delta = [{"type": "text-delta", "id": "t", "delta": "evil speaks here"}]
    for seq, end in ((20, "open"), (21, "complete"), (len(events), "complete"), (2**53 - 2, "error")):
        await stage.upload(stage.evil, of_acme(thread), "r1", delta, from_seq=seq, end=end)
    await sees_nothing(stage, said)
    tail = await stage.upload(stage.acme, thread, "r1", events[20:], from_seq=20, end="complete")
    assert tail.status_code == 200, tail.text
    await stage.is_whole(said)
    await sees_nothing(stage, said)


async def look_on(stage: Stage) -> None:
    thread = "order-4715"
    said = Said(thread, sentence(thread))
    await stage.upload(stage.acme, thread, "r1", spoken(said.text)[:30], end="open")
    uuid = of_acme(thread)
    await stage.upload(stage.evil, uuid, "r1", [{"type": "data-x", "data": 1}], from_seq=1000, end="open")
    own = (await stage.acme.get(f"/v1/threads/{uuid}/live?follow=false")).text
    assert f"{thread}-says" in own, "the victim's own stream has its words"
    for _ in range(3):
        await sees_nothing(stage, said)
        resumed = (await stage.evil.get(f"/v1/threads/{uuid}/live?dialect=vercel-ai&follow=false")).text
        assert f"{thread}-says" not in resumed, "the attacker resumes the victim's stream"


async def event_ids(stage: Stage) -> None:
    thread = "order-4716"
    said = await stage.speak(thread)
    uuid = of_acme(thread)
    await stage.upload(stage.evil, uuid, "mine", spoken("bait"))
    paths = (f"/v1/threads/{uuid}/live", "/v1/threads/mine/live", "/v1/threads/nobodys/live")
    places = [f"0-{offset}.{index}" for offset in range(0, 60, 3) for index in (0, 999_999_999)]
    places += ["0-9223372036854775807.0", "99-0.0", "0-0.-1", "0-0", "x", "0-" + "9" * 90]
    for path in paths:
        for more in ({}, {"dialect": "vercel-ai"}):
            queries = [{"follow": "false", "last_event_id": place, **more} for place in places]
            answers = await asyncio.gather(*(stage.evil.get(path, params=query) for query in queries))
            for query, answer in zip(queries, answers, strict=True):
                assert answer.status_code < 500, (path, query, answer.text)
                assert f"{thread}-says" not in answer.text, f"{path} {query} shows the victim's words"
    starving = [
        asyncio.create_task(stage.evil.get("/v1/threads/nobodys/live?wait=true", headers={"Last-Event-ID": "0-0.0"}))
        for _ in range(12)
    ]
    try:
        read = await stage.acme.get(f"/v1/threads/{uuid}/live?follow=false", headers={"Last-Event-ID": "0-0.0"})
        assert read.status_code in (200, 204), read.text
    finally:
        for task in starving:
            task.cancel()
    await stage.is_whole(said)


async def family(stage: Stage) -> None:
    thread = "order-4717"
    said = await stage.speak(thread)
    await stage.is_whole(said)
    uuid = of_acme(thread)
    links = {"parent_thread_id": uuid, "parent_run_id": "r1"}
    await stage.upload(stage.evil, "a-child", "r1", spoken("evil is a child"), agent_name="evil-child", **links)
    link = {"type": "thread-link", "link": {"thread_id": uuid, "relation": "spawned_from"}, "from": uuid}
    await stage.upload(stage.evil, "a-child", "r2", json.dumps(link).encode(), dialect="thread-protocol")

    async def stored() -> bool:
        return (await stage.evil.get("/v1/threads/a-child")).status_code == 200

    await stage.within_progress(stored, lambda: "the attacker's thread is not stored")
    tree = (await stage.acme.get(f"/v1/threads/{thread}/tree")).text
    assert "evil" not in tree, f"the victim's tree has the attacker's thread: {tree[:500]}"
    theirs = (await stage.evil.get("/v1/threads/a-child/tree")).text
    assert f"{thread}-says" not in theirs, theirs[:500]
    await sees_nothing(stage, said)


async def guess_ids(stage: Stage) -> None:
    thread = "order-4718"
    said = await stage.speak(thread)
    await stage.is_whole(said)
    uuid = of_acme(thread)
    for name in (
        turn_id(uuid, "r1"),
        "r1",
        f"{uuid}/acme",
        f"{uuid}%2Facme",
        f"{uuid}%00",
        uuid.upper(),
        f"{{{uuid}}}",
    ):
        found = await all_that(stage.evil, name)
        assert f"{thread}-says" not in found, f"the attacker reads the victim's words at {name}"
        await stage.evil.delete(f"/v1/threads/{name}")
    for path in ("/v1/threads?tenant=acme", "/v1/usage?tenant=acme", "/v1/figures/live?tenant=acme&follow=false"):
        assert (await stage.evil.get(path)).status_code == 403, path
    await stage.is_whole(said)


async def borrowed_objects(stage: Stage) -> None:
    """The victim's large value lies in the content store; its address is made of ids and of a hash."""
    thread, secret = "order-4719", "the victim's result " * 10_000
    events = spoken(sentence(thread))
    tool = {"toolCallId": "c", "toolName": "dump"}
    events[2:2] = [
        {"type": "tool-input-available", **tool, "input": {}},
        {"type": "tool-output-available", "toolCallId": "c", "output": secret},
    ]
    await stage.upload(stage.acme, thread, "r1", events)
    await stage.is_whole(Said(thread, sentence(thread)))
    digest = hashlib.sha256(secret.encode()).hexdigest()
    content, uuid = Path(stage.settings.home) / "content", of_acme(thread)
    packs = [path for path in content.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert packs, "the victim's value is in the content store"
    roots = {f"{content.as_uri()}/{folder(ThreadKey(uuid, 'acme'))}", f"{content.as_uri()}/{uuid}"}
    here = thread_uuid("thief", "evil")[0]
    uris = [f"{root}/{digest}" for root in roots]
    uris += [uri.replace(uuid, here) for uri in uris] + [uri.replace(f"/{uuid}", f"/{here}/../{uuid}") for uri in uris]
    refs = [
        {"uri": uri, "size_bytes": len(secret), "media_type": "text/plain", **said}
        for uri in uris
        for said in ({"hash": f"sha256:{digest}"}, {})
    ]
    for number, ref in enumerate(refs):
        name = {"tool_name": "dump", "tool_call_id": "c"}
        parts = [{"part_kind": "tool-return", **name, "status": "success", "content_ref": ref}]
        message = {"message_type": "request", "agent_id": "thief", "timestamp": FUTURE, "parts": parts}
        call = {"message_type": "response", "agent_id": "thief", "timestamp": FUTURE}
        call["parts"] = [{"part_kind": "tool-call", **name, "args": {}}]
        turn = {"turn_type": "agent", "agent_id": "thief", "started_at": FUTURE, "completed_at": FUTURE}
        turn |= {"completion_status": "complete", "messages": [call, message]}
        event = json_text.dumps({"type": "agent-turn", "turn": turn}).encode()
        for victim in ("thief", uuid):
            said = await stage.upload(stage.evil, victim, f"theft-{number}", event, dialect="thread-protocol")
            assert said.status_code == 200 or victim == uuid, said.text
    await stage.is_whole(await stage.speak())
    for name in ("thief", here, uuid):
        found = await all_that(stage.evil, name)
        assert secret[:60] not in found, f"the attacker reads the victim's value at {name}"
    for name in ("thief", uuid):
        await stage.evil.delete(f"/v1/threads/{name}")
    inline = (await stage.acme.get(f"/v1/threads/{thread}?inline=true")).text
    assert secret[:60] in inline, "the victim's value is gone"


async def steer(stage: Stage) -> None:
    """Runs of the attacker that say to be other versions of the victim's, and to go on from it."""
    thread = "order-4722"
    uuid = of_acme(thread)
    said = await stage.speak(thread)
    for number, how in enumerate(("replaces", "continues", "parent_run_id")):
        for name in (uuid, thread):
            answer = await stage.upload(stage.evil, name, f"e{number}", spoken("evil was here"), **{how: "r1"})
            assert answer.status_code == 200, answer.text
    tenants: tuple[dict[str, Any], ...] = ({"tenant": "evil"}, {"tenant": None}, {})
    for tenant in tenants:
        record = {"v": 1, "thread_id": uuid, "run_id": "e9", "agent_id": "agent", "ts": 1, "dialect": "vercel-ai"}
        more = {"seq": 0, "events": spoken("evil was here"), "run": {"replaces": "r1"}, "end": "complete"}
        await stage.publish({**record, **more, **tenant}, key=uuid.encode())
    await stage.all_read()
    await stage.is_whole(said)
    found = (await stage.acme.get(f"/v1/threads/{thread}")).text
    assert "meta:branch" not in found, "the victim's thread forks"
    for name in ("e0", "e9"):
        answer = await stage.acme.get(f"/v1/threads/{thread}?branch={name}")
        assert answer.status_code == 404, f"the victim has a branch {name}"
    await sees_nothing(stage, said)


async def another_name(stage: Stage) -> None:
    """A record of somebody who may write to the topic, with the same ids and another tenant, or none."""
    thread = "order-4720"
    said = Said(thread, sentence(thread))
    events, uuid = spoken(said.text), of_acme(thread)
    base = {"v": 1, "thread_id": uuid, "run_id": "r1", "agent_id": "agent", "ts": 1, "dialect": "vercel-ai"}
    delta = [{"type": "text-delta", "id": "t", "delta": "evil"}]
    await stage.upload(stage.acme, thread, "r1", events[:10], end="open")
    for seq in (0, 10, 11, len(events)):
        for tenant in ({"tenant": "evil"}, {"tenant": ""}, {"tenant": None}, {}, {"tenant": "acme\0"}):
            record = {**base, "seq": seq, "events": delta, **tenant}
            await stage.publish(record, {**record, "events": [], "end": "complete"}, key=uuid.encode())
    await stage.upload(stage.acme, thread, "r1", events[10:], from_seq=10, end="complete")
    await stage.is_whole(said)
    await sees_nothing(stage, said)


INJECTED: Final = (
    *('") OR words:("says', "says' OR '1'='1", "says'; DROP TABLE said; --", "says NEAR(says, 9)", "{words}: says"),
    *("says | !says", "'says':*", "§t* says", "‹says OR says", "-nothing says", '"says" OR tenant:acme', "says\0*"),
)
HEAVY: Final = (
    '"' * 500,
    "*" * 500,
    "a" * 500,
    " ".join(f"{chr(97 + n)}a*" for n in range(16)),
    "-a " * 166,
    "天" * 60,
)


async def search_in(stage: Stage) -> None:
    """Words of the victim, in every spelling that could get past the tenant; then queries that are meant to be slow."""
    said = await stage.speak("searched-4714")
    await stage.is_whole(said)
    mine = (await stage.acme.get("/v1/search", params={"q": said.thread})).json()["results"]
    assert mine, "the victim does not find what it said"
    cursor = (await stage.acme.get("/v1/search", params={"q": said.thread, "limit": 1})).json()["next"]
    cursors: tuple[dict[str, Any], ...] = ({}, {"cursor": cursor} if cursor else {"cursor": "WzEsMF0"})
    for q in (said.thread, said.text[:400], *INJECTED, *HEAVY):
        for more in cursors:
            began = time.monotonic()
            answer = await stage.evil.get("/v1/search", params={"q": q, "in": ["said", "thinking", "results"], **more})
            assert answer.status_code in (200, 400, 422), f"{q!r}: {answer.status_code} {answer.text}"
            assert f"{said.thread}-says" not in answer.text, f"the attacker reads the victim's words by {q!r}"
            assert of_acme(said.thread) not in answer.text, f"the attacker learns of the victim's thread by {q!r}"
            assert time.monotonic() - began < SLOWEST, f"{q!r} takes too long"
        refused = await stage.evil.get("/v1/search", params={"q": q, "tenant": "acme"})
        assert refused.status_code in (403, 422), refused.text
    gone = of_acme(said.thread)
    assert (await stage.acme.delete(f"/v1/threads/{gone}")).status_code == 200
    left = (await stage.acme.get("/v1/search", params={"q": said.thread})).json()["results"]
    assert not left, f"what was deleted is found: {left}"
    await stage.is_whole(await stage.speak("searched-4715"))


ATTACKS: Final = (
    Attack(
        "squat",
        "post to the computed UUID of a conversation first, dated 2099",
        "take the thread, read it, delete it, or keep its owner out",
        squat,
        short=True,
    ),
    Attack(
        "erase first",
        "delete a thread of one's own with the victim's UUID",
        "keep what the victim says later out of the store",
        erase_first,
        short=True,
    ),
    Attack(
        "hijack before it begins",
        "from_seq=8&end=complete to a run that has not begun",
        "end it, or own it",
        hijack_before,
        short=True,
    ),
    Attack(
        "hijack an open run",
        "events and ends into a run that the victim has open",
        "end it, speak in it, or read it",
        hijack_open,
        short=True,
    ),
    Attack(
        "look on",
        "live streams and figures of a run with the victim's ids",
        "see the text of the victim's open runs",
        look_on,
        short=True,
    ),
    Attack(
        "event ids",
        "Last-Event-ID of other threads, of no thread, of the topic's start",
        "see other threads' events, or starve other readers",
        event_ids,
    ),
    Attack("family", "declare the victim's thread a parent", "stand in its tree, or read it", family),
    Attack(
        "steer",
        "runs that say to replace or to continue the victim's",
        "make its thread fork, hide its answer, or read it",
        steer,
        short=True,
    ),
    Attack("guessed ids", "turn ids, run ids and odd spellings in every path", "read or delete anything", guess_ids),
    Attack(
        "search",
        "the victim's words, operators of SQL and of full-text search, another's cursor, endless queries",
        "find them, learn of the thread, break the index, or take the gateway's time",
        search_in,
        short=True,
    ),
    Attack(
        "borrowed objects",
        "content references to the victim's objects, computed",
        "read them, or delete them",
        borrowed_objects,
    ),
    Attack(
        "another name",
        "Kafka records with the victim's thread and run, and another tenant",
        "change or end the victim's run",
        another_name,
        short=True,
    ),
)
