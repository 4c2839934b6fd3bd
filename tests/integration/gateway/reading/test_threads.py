"""Stored threads over HTTP: lists, formats, trees, and deletion, which is told to the audit log."""

import logging
from typing import Any

import httpx
import pytest

from pipeline.dialects import FORMATS
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping import erasure
from pipeline.stores.threads.pages import PIECE
from pipeline.stores.turns import write_turns
from pipeline.turns.requests import digest
from tests.support.gateways import Running, Tokens, client
from tests.support.turn_records import make_record
from turnmill.identity import thread_uuid


async def write(settings: Settings, *records: Any) -> None:
    async with await ThreadStore.open(settings.store_url) as store:
        await write_turns(store, list(records))


def problem(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    said = dict(answer.json())
    assert (said["type"], said["status"]) == (f"/docs#{kind}", status)
    assert said["title"]
    assert said["detail"]
    return said


async def test_lists_come_in_pages_and_are_filtered(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    await write(
        gateway_settings,
        *(
            make_record(
                f"chat-{n}",
                seconds=n * 60,
                agent_id=f"agent-{n % 2}",
                status="interrupted" if n % 3 == 0 else "complete",
                tenant=f"t{n % 2}",
            )
            for n in range(25)
        ),
    )
    names: list[str] = []
    cursor = ""
    while cursor is not None:
        query = {"limit": "10", **({"cursor": cursor} if cursor else {})}
        page = (await http.get("/v1/threads", params=query)).json()
        names += [thread["external_id"] for thread in page["threads"]]
        cursor = page["cursor"]
    assert names == [f"chat-{n}" for n in reversed(range(25))], "the last updated first, each once"
    for query, numbers in (
        ({"agent": "agent-1"}, [n for n in range(25) if n % 2]),
        ({"tenant": "t0"}, [n for n in range(25) if n % 2 == 0]),
        ({"status": "interrupted"}, [n for n in range(25) if n % 3 == 0]),
        ({"external_id": "chat-7"}, [7]),
        ({"search": "CHAT-24"}, [24]),
        ({"since": "2026-01-20T10:20:00Z"}, [20, 21, 22, 23, 24]),
        ({"until": "2026-01-20T10:02:00Z"}, [0, 1]),
    ):
        found = (await http.get("/v1/threads", params=query)).json()["threads"]
        assert {thread["external_id"] for thread in found} == {f"chat-{n}" for n in numbers}, query


async def test_what_was_asked_comes_where_it_is_asked_for(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    body = {"model": "m", "system": "be brief " * 100, "tools": []}
    name = digest(body)
    record = make_record("chat-q", tenant="t1", requests={name: body})
    record["turn"]["messages"][0]["meta:request"] = {"sha256": name}
    await write(gateway_settings, record)
    plain = (await http.get("/v1/threads/chat-q")).json()
    assert plain["turns"][0]["messages"][0]["meta:request"] == {"sha256": name}
    assert "meta:requests" not in plain
    whole = (await http.get("/v1/threads/chat-q", params={"requests": True})).json()
    assert whole == {**plain, "meta:requests": {name: body}}
    assert (await http.get(f"/v1/requests/{name}")).json() == body
    problem(await http.get(f"/v1/requests/{name}", params={"tenant": "t2"}), 404, "unknown-request")
    problem(await http.get(f"/v1/requests/{'0' * 64}"), 404, "unknown-request")
    problem(await http.get("/v1/requests/no-hash"), 404, "unknown-request")
    of_form = {"requests": True, "format": "openai-chat"}
    problem(await http.get("/v1/threads/chat-q", params=of_form), 400, "bad-request")


async def test_what_was_shown_comes_where_it_is_asked_for(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    record = make_record("chat-p", status="interrupted")
    at, text = "2026-01-20T10:00:00.000Z", {"part_kind": "text", "content": "Half a sent", "meta:unfinished": True}
    message = {"message_type": "response", "timestamp": at, "agent_id": record["agent_id"], "parts": [text]}
    record["turn"]["meta:partial"] = {"messages": [message]}
    await write(gateway_settings, record)
    assert "Half a sent" not in (await http.get("/v1/threads/chat-p?format=openai-chat")).text
    answer = (await http.get("/v1/threads/chat-p?format=openai-chat&partial=true")).json()
    assert "Half a sent" in str([answer["messages"][place] for place in answer["partial"]])
    (turn,) = (await http.get("/v1/threads/chat-p?partial=true")).json()["turns"]
    assert {**message, "meta:partial": True} in turn["messages"]


async def test_a_branch_of_a_thread_that_forks(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    first, again = (make_record("chat-b", run, seconds=n, text=run) for n, run in enumerate(("first", "again")))
    await write(gateway_settings, first, {**again, "lineage": {"replaces": "first"}})
    whole = await http.get("/v1/threads/chat-b")
    places = [turn["meta:branch"]["version"] for turn in whole.json()["turns"]]
    assert [place.pop("number") for place in places] == [1, 2]
    assert places == [{"of": 2, "first": "first", "next": "again"}, {"of": 2, "first": "first", "before": "first"}]
    newest = (await http.get("/v1/threads/chat-b?format=openai-chat")).text
    older = (await http.get("/v1/threads/chat-b?format=openai-chat&branch=first")).text
    assert ("first" in newest, "again" in newest) == (False, True)
    assert ("first" in older, "again" in older) == (True, False)
    (turn,) = (await http.get("/v1/threads/chat-b?branch=first")).json()["turns"]
    assert turn["meta:branch"]["run"] == "first"
    assert (await http.get("/v1/threads/chat-b?branch=")).json()["turns"][0]["meta:branch"]["run"] == "again"
    problem(await http.get("/v1/threads/chat-b?branch=other"), 404, "unknown-branch")


async def test_the_end_of_a_long_thread(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    records = long_thread(9)
    await write(gateway_settings, *records)
    document = (await http.get("/v1/threads/chat-l?turns=2")).json()
    assert [turn["meta:turn_id"] for turn in document["turns"]] == [record["turn_id"] for record in records[-2:]]
    assert document["meta:earlier"] == 7
    document = (await http.get(f"/v1/threads/chat-l?turns=2&since_turn={records[4]['turn_id']}")).json()
    assert document["meta:earlier"] == 2
    assert "meta:earlier" not in (await http.get("/v1/threads/chat-l?turns=9")).json()
    problem(await http.get("/v1/threads/chat-l?since_turn=other"), 404, "unknown-turn")
    problem(await http.get("/v1/threads/chat-l?turns=0"), 422, "invalid-parameters")
    problem(await http.get("/v1/threads/chat-l?turns=2&format=vercel-ai"), 400, "bad-request")


def long_thread(turns: int) -> list[dict[str, Any]]:
    records = [make_record("chat-l", f"r{n}", seconds=n) for n in range(turns)]
    for record in records:
        record["turn"]["meta:turn_id"] = record["turn_id"]
    return records


async def test_pages_of_a_thread(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    records = long_thread(9)
    records[8]["lineage"] = {"replaces": "r7"}
    ids = [record["turn_id"] for record in records]
    await write(gateway_settings, *records)

    async def page(**query: Any) -> tuple[list[int], int | None, int | None]:
        found = (await http.get("/v1/threads/chat-l", params=query)).json()
        shown = [ids.index(turn["meta:turn_id"]) for turn in found["turns"]]
        ends = (None if found[end] is None else ids.index(found[end]) for end in ("previous", "next"))
        return shown, *ends

    assert await page(last=2) == ([7, 8], 7, None)
    assert await page(last=2, before=ids[7]) == ([5, 6], 5, 6)
    assert await page(before=ids[2]) == ([0, 1], None, 1)
    assert await page(last=3, after="") == ([0, 1, 2], None, 2)
    assert await page(after=ids[6]) == ([7, 8], 7, None)
    assert await page(last=2, branch="") == ([6, 8], 6, None)
    assert await page(last=2, after=ids[1], before=ids[3]) == ([2], 2, 2)
    messages = (await http.get("/v1/threads/chat-l?last=2&format=openai-chat")).json()
    assert (len(messages["messages"]), messages["previous"]) == (2, ids[6]), "the newest branch"
    problem(await http.get("/v1/threads/chat-l?before=other"), 404, "unknown-turn")
    problem(await http.get("/v1/threads/chat-l?last=1&branch=other"), 404, "unknown-branch")
    problem(await http.get("/v1/threads/chat-other?last=1"), 404, "unknown-thread")
    problem(await http.get("/v1/threads/chat-l?last=1001"), 422, "invalid-parameters")
    problem(await http.get("/v1/threads/chat-l?last=2&turns=2"), 400, "bad-request")


async def test_a_long_document_is_sent_piece_by_piece(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    await write(gateway_settings, *long_thread(PIECE + 1))
    whole = await http.get("/v1/threads/chat-l")
    assert "content-length" not in whole.headers
    asked_for_as_one = await http.get("/v1/threads/chat-l?inline=true")
    assert whole.content == asked_for_as_one.content
    again = await http.get("/v1/threads/chat-l", headers={"If-None-Match": whole.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (await http.get("/v1/threads/chat-l?partial=true")).json() == whole.json()


@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [
        ({"cursor": "rubbish"}, 400, "bad-cursor"),
        ({"cursor": "\u00e9"}, 400, "bad-cursor"),
        ({"limit": "0"}, 422, "invalid-parameters"),
        ({"limit": "many"}, 422, "invalid-parameters"),
        ({"since": "soon"}, 422, "invalid-parameters"),
        ({"status": "lost"}, 422, "invalid-parameters"),
        ({"search": "x" * 201}, 422, "invalid-parameters"),
    ],
)
async def test_what_can_not_be_listed(http: httpx.AsyncClient, query: dict[str, str], status: int, kind: str) -> None:
    said = problem(await http.get("/v1/threads", params=query), status, kind)
    if status == 422:
        assert said["errors"][0]["name"] == next(iter(query))


async def test_a_thread_in_every_format(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    record = make_record("chat-1", text="Hello")
    await write(gateway_settings, record)
    for name in ("chat-1", record["thread_id"], record["thread_id"].upper()):
        document = (await http.get(f"/v1/threads/{name}")).json()
        assert document["thread_id"] == record["thread_id"]
    for form, export in [(name, form.write) for name, form in FORMATS.items() if name != "thread"]:
        if form != "thread":
            answer = (await http.get("/v1/threads/chat-1", params={"format": form})).json()
            assert answer == {"thread_id": record["thread_id"], "messages": export(document)}
    answer = await http.get("/v1/threads/chat-1")
    assert answer.headers["cache-control"] == "private, no-cache"
    for tag in (answer.headers["etag"], f'W/"x", {answer.headers["etag"]}', "*"):
        again = await http.get("/v1/threads/chat-1", headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
    await write(gateway_settings, make_record("chat-1", "another", seconds=5))
    changed = await http.get("/v1/threads/chat-1", headers={"If-None-Match": answer.headers["etag"]})
    assert changed.status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("chat-2", 404, "unknown-thread"),
        ("chat-2/tree", 404, "unknown-thread"),
        ("chat-1?format=word", 422, "invalid-parameters"),
        ("chat-1?for_version=1.20", 400, "bad-request"),
        ("chat-1?format=pydantic-ai&for_version=new", 400, "bad-request"),
        ("chat-1?format=vercel-ai&repeat_user_prompt=true", 400, "bad-request"),
        ("chat-1/nothing", 404, "not-found"),
    ],
)
async def test_what_can_not_be_read(
    http: httpx.AsyncClient, gateway_settings: Settings, path: str, status: int, kind: str
) -> None:
    await write(gateway_settings, make_record("chat-1"))
    problem(await http.get(f"/v1/threads/{path}"), status, kind)


async def test_content_that_only_its_producer_has_is_told(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    record = make_record("chat-1")
    reference = {"uri": "http://169.254.169.254/secret", "size_bytes": 200_000, "hash": "0" * 64, "media_type": "a/b"}
    returned = {"part_kind": "tool-return", "tool_call_id": "c1", "tool_name": "fetch", "content_ref": reference}
    record["turn"]["messages"].append({"message_type": "request", "parts": [returned]})
    await write(gateway_settings, record)
    assert (await http.get("/v1/threads/chat-1")).status_code == 200
    said = problem(await http.get("/v1/threads/chat-1?inline=true"), 409, "conflict")
    assert "without `inline`" in said["detail"]


async def test_sub_agents_are_a_tree(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    root, child, leaf = (thread_uuid(name)[0] for name in ("root", "child", "leaf"))
    await write(
        gateway_settings,
        make_record("root"),
        make_record("child", thread={"external_id": "child"}, links=[_spawned(child, root)]),
        make_record("leaf", thread={"external_id": "leaf"}, links=[_spawned(leaf, child)]),
    )
    tree = (await http.get("/v1/threads/root/tree")).json()
    assert tree["thread"]["thread_id"] == root
    assert [node["thread"]["thread_id"] for node in tree["spawned"]] == [child]
    assert [node["thread"]["thread_id"] for node in tree["spawned"][0]["spawned"]] == [leaf]
    assert tree["more"] is False


def _spawned(thread_id: str, parent: str) -> dict[str, Any]:
    return {"from": thread_id, "thread_id": parent, "relation": "spawned_from"}


async def test_each_deletion_is_told_to_the_audit_log(
    guarded: Running, tokens: Tokens, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record("chat-1", tenant="acme")
    record["thread_id"] = thread_uuid("chat-1", "acme")[0]
    await write(guarded.settings, record)
    caplog.set_level(logging.INFO, "pipeline.audit")
    async with client(guarded.url, tokens.reader) as http:
        problem(await http.delete("/v1/threads/chat-1"), 403, "forbidden")
        problem(await http.put("/v1/threads/chat-1/hold"), 403, "forbidden")
    async with client(guarded.url, tokens.acme) as http:
        problem(await http.delete("/v1/threads/chat-2"), 404, "unknown-thread")
        assert not _audited(caplog)
        with monkeypatch.context() as broken:
            broken.setattr(erasure, "delete_thread", _failing)
            problem(await http.delete("/v1/threads/chat-1"), 500, "internal")
        answer = await http.delete("/v1/threads/chat-1")
        assert answer.json() == {
            "thread_id": record["thread_id"],
            "objects": 0,
            "segments": 0,
            "sub_agents": [],
            "held": [],
        }
        problem(await http.delete("/v1/threads/chat-1"), 404, "unknown-thread")
    first, failed, second, done = _audited(caplog)
    assert first.startswith("deleting thread"), "before anything of it goes"
    for line in (first, failed, second, done):
        assert f"thread {record['thread_id']}" in line
        assert "by 'acme' of tenant 'acme'" in line
    assert "did not come to its end" in failed


async def test_a_held_thread_is_not_deleted(guarded: Running, tokens: Tokens, caplog: pytest.LogCaptureFixture) -> None:
    record = make_record("chat-1", tenant="acme")
    record["thread_id"] = thread_uuid("chat-1", "acme")[0]
    await write(guarded.settings, record)
    caplog.set_level(logging.INFO, "pipeline.audit")
    of = {"thread_id": record["thread_id"]}
    async with client(guarded.url, tokens.acme) as http:
        problem(await http.put("/v1/threads/chat-2/hold"), 404, "unknown-thread")
        assert (await http.put("/v1/threads/chat-1/hold")).json() == of | {"held": True, "changed": True}
        assert (await http.put("/v1/threads/chat-1/hold")).json() == of | {"held": True, "changed": False}
        problem(await http.delete("/v1/threads/chat-1"), 409, "conflict")
        assert (await http.get("/v1/threads/chat-1")).status_code == 200
        assert (await http.delete("/v1/threads/chat-1/hold")).json() == of | {"held": False, "changed": True}
        assert (await http.delete("/v1/threads/chat-1/hold")).json() == of | {"held": False, "changed": False}
        assert (await http.delete("/v1/threads/chat-1")).status_code == 200
        problem(await http.delete("/v1/threads/chat-1/hold"), 404, "unknown-thread")
    lines = _audited(caplog)
    assert [line.split()[0] for line in lines] == ["held", "held", "released", "released", "deleting", "deleted"]
    assert all("by 'acme' of tenant 'acme'" in line for line in lines)


def _audited(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was done; what was refused is not."""
    lines = [line.getMessage() for line in caplog.records if line.name == "pipeline.audit"]
    return [line for line in lines if " refused, " not in line]


async def _failing(*_: object) -> None:
    raise RuntimeError("the power is off")
