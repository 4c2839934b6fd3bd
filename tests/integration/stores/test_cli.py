"""`turnmill store`, `threads` and `export`, on both databases."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import update

from pipeline.__main__ import cli
from pipeline.dialects import FORMATS
from pipeline.dialects.pydantic_ai.formats import messages
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.migrate import HEAD
from pipeline.stores.database.schema import usage_sums
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import read_thread
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.summing import keep_sums
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid

CHAT, OTHER = thread_uuid("chat")[0], thread_uuid("other")[0]


@pytest.fixture
def turnmill(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command with the store of the test."""
    monkeypatch.setenv("TURNMILL_STORE", store_url)

    def run(*args: str, **options: Any) -> Result:
        return CliRunner().invoke(cli, args, standalone_mode=False, **options)

    return run


@pytest.fixture
async def documents(store: ThreadStore, record: Any) -> dict[str, Any]:
    await write_turns(
        store,
        [
            record("chat", "r1", "user", role="user", text="What is the weather?", agents=[]),
            record("chat", "r1", seconds=2, text="Sunny."),
            record("other", "r2", seconds=9, status="interrupted", text="Once upon"),
        ],
    )
    return {thread_id: await read_thread(store, ThreadKey(thread_id)) for thread_id in (CHAT, OTHER)}


def test_list(turnmill: Any, documents: Any) -> None:
    lines = turnmill("threads", "list").output.splitlines()
    assert [line.split()[0] for line in lines] == ["thread", "other", "chat"]
    assert "What is the weather?" in lines[2]
    assert "interrupted" in lines[1]


def test_list_as_json_page_by_page(turnmill: Any, documents: Any) -> None:
    first = json.loads(turnmill("threads", "list", "--json", "--limit", "1").output)
    second = json.loads(turnmill("threads", "list", "--json", "--limit", "1", "--cursor", first["cursor"]).output)
    assert [thread["thread_id"] for page in (first, second) for thread in page["threads"]] == [OTHER, CHAT]
    assert second["cursor"] is None
    assert json.loads(turnmill("threads", "list", "--json", "--search", "nothing").output)["threads"] == []
    assert "turnmill publish" in turnmill("threads", "list", "--search", "nothing").output


@pytest.mark.parametrize("name", [CHAT, CHAT.upper(), "chat"])
def test_show(turnmill: Any, documents: Any, name: str) -> None:
    assert json.loads(turnmill("threads", "show", name, "--json").output) == documents[CHAT]
    shown = turnmill("threads", "show", name).output
    assert "What is the weather?" in shown
    assert "Sunny." in shown


def test_show_a_page(turnmill: Any, documents: Any) -> None:
    last = documents[CHAT]["turns"][-1]
    page = json.loads(turnmill("threads", "show", CHAT, "--json", "--last", "1").output)
    assert (page["turns"], page["next"]) == ([last], None)
    shown = turnmill("threads", "show", CHAT, "--after", "", "--last", "1").output
    assert "What is the weather?" in shown
    assert "Sunny." not in shown
    turn = shown.rpartition("more: --after ")[2].strip()
    assert json.loads(turnmill("threads", "show", CHAT, "--json", "--before", turn).output)["turns"] == []
    assert "Sunny." in turnmill("threads", "show", CHAT, "--after", turn).output
    assert "meta:turn_id" in str(turnmill("threads", "show", CHAT, "--before", "other").exception)


def test_a_query_reads_records_and_changes_nothing(turnmill: Any, documents: Any, store_url: str) -> None:
    rows = [
        json.loads(line) for line in turnmill("store", "sql", "SELECT * FROM turns ORDER BY id").output.splitlines()
    ]
    assert [row["record"]["run_id"] for row in rows] == ["r1", "r1", "r2"]
    assert all(isinstance(row["turn_id"], str) for row in rows)
    if store_url.startswith("sqlite:"):
        within = "SELECT json_extract(record_json(record), '$.run_id') AS run FROM turns ORDER BY id DESC LIMIT 1"
        assert json.loads(turnmill("store", "sql", within).output) == {"run": "r2"}
    for wrong in ("DELETE FROM turns", "SELECT nothing FROM turns"):
        assert isinstance(turnmill("store", "sql", wrong).exception, StoreError)
    assert len(turnmill("store", "sql", "SELECT 1 FROM turns").output.splitlines()) == 3


def test_a_thread_that_is_not_there(turnmill: Any, documents: Any) -> None:
    for command in (("threads", "show"), ("threads", "delete", "--yes"), ("export",)):
        result = turnmill(*command, "nothing")
        assert isinstance(result.exception, CallerError)
        assert "threads list" in str(result.exception)


def test_delete_asks_first(turnmill: Any, documents: Any) -> None:
    assert turnmill("threads", "delete", "chat", input="n\n").exception is not None
    assert len(turnmill("export").output.splitlines()) == 2
    assert turnmill("threads", "delete", "chat", input="y\n").output.endswith(f"deleted {CHAT}\n")
    assert [json.loads(line)["thread_id"] for line in turnmill("export").output.splitlines()] == [OTHER]


def test_export_of_every_thread_and_of_some(turnmill: Any, documents: Any, tmp_path: Path) -> None:
    every = [json.loads(line) for line in turnmill("export").output.splitlines()]
    assert {document["thread_id"]: document for document in every} == documents
    assert [json.loads(line) for line in turnmill("export", "other", CHAT).output.splitlines()] == [
        documents[OTHER],
        documents[CHAT],
    ]
    out = tmp_path / "threads.jsonl"
    assert turnmill("export", "--out", str(out)).output == ""
    assert [json.loads(line) for line in out.read_text().splitlines()] == every
    refused = turnmill("export", "--out", str(tmp_path / "no" / "folder"))
    assert isinstance(refused.exception, CallerError)


@pytest.mark.parametrize("form", [name for name in FORMATS if name != "thread"])
def test_export_in_an_sdks_own_form(turnmill: Any, documents: Any, form: str) -> None:
    lines = turnmill("export", "chat", "other", "--format", form).output.splitlines()
    expected = [{"thread_id": id_, "messages": FORMATS[form].write(documents[id_])} for id_ in (CHAT, OTHER)]
    assert [json.loads(line) for line in lines] == json.loads(json.dumps(expected))


def test_export_for_a_release_and_for_an_agent(turnmill: Any, documents: Any) -> None:
    def exported(*options: str) -> Any:
        return json.loads(turnmill("export", "chat", *options).output)

    one = exported("--format", "pydantic-ai", "--for-version", "1.20")
    assert one == {"thread_id": CHAT, "messages": json.loads(json.dumps(messages(documents[CHAT], for_version="1.20")))}
    told = exported("--format", "pydantic-ai", "--viewing-agent", "other")["messages"]
    assert [part["content"] for part in told[-1]["parts"]] == [["A1:", "Sunny."]]
    repeated = exported("--repeat-user-prompt")
    assert repeated["turns"][1]["messages"][0]["parts"] == documents[CHAT]["turns"][0]["parts"]


@pytest.mark.parametrize(
    "options",
    [
        ("--for-version", "2.68"),
        ("--viewing-agent", "a1", "--format", "vercel-ai"),
        ("--repeat-user-prompt", "--format", "pydantic-ai"),
        ("--format", "pydantic-ai", "--for-version", "newest"),
    ],
)
def test_options_of_another_format_are_refused(turnmill: Any, documents: Any, options: tuple[str, ...]) -> None:
    assert isinstance(turnmill("export", *options).exception, CallerError)


def test_migrate_and_check(turnmill: Any, store_url: str) -> None:
    refused = turnmill("store", "check")
    assert isinstance(refused.exception, StoreError)
    assert "`turnmill store migrate`" in str(refused.exception)
    assert "was empty" in turnmill("store", "migrate").output
    assert "already up to date" in turnmill("store", "migrate").output
    assert "0 threads, 0 turns" in turnmill("store", "check").output
    found = json.loads(turnmill("store", "check", "--json").output)
    assert (found["schema"], found["threads"], found["runs"]) == (HEAD, 0, 0)


@pytest.fixture
async def forked(store: ThreadStore, record: Any) -> None:
    first, again = (record("fork", run, seconds=n, text=f"the {run} answer") for n, run in enumerate(("1st", "2nd")))
    await write_turns(store, [first, {**again, "lineage": {"replaces": "1st"}}])


@pytest.mark.usefixtures("forked")
def test_a_branch_is_shown_and_exported(turnmill: Any) -> None:
    def printed(*args: str) -> tuple[bool, bool]:
        output = turnmill(*args).output
        return "the 1st answer" in output, "the 2nd answer" in output

    assert printed("export", "fork") == (True, True)
    assert printed("export", "fork", "--format", "vercel-ai") == (False, True)
    assert printed("export", "fork", "--format", "vercel-ai", "--branch", "1st") == (True, False)
    assert printed("threads", "show", "fork", "--branch", "1st") == (True, False)
    error = turnmill("export", "fork", "--branch", "3rd").exception
    assert isinstance(error, CallerError)
    assert "no run or turn of this thread is called '3rd'" in str(error)


async def test_the_command_compares_the_sums_of_usage(
    store: ThreadStore, turnmill: Any, documents: dict[str, Any]
) -> None:
    def run(*options: str) -> Result:
        result = turnmill("store", "sums", *options)
        assert isinstance(result, Result)
        return result

    assert "4 sums compared with the rows, 0 wrong" in (await asyncio.to_thread(run)).output
    async with store.writing() as connection:
        await connection.execute(update(usage_sums).values(requests=7))
    found = await asyncio.to_thread(run)
    assert isinstance(found.exception, SystemExit)
    assert found.exception.code == 1
    assert "4 sums compared with the rows, 4 wrong" in found.output
    assert "wrong: 60 minutes from 2026-01-20T10:00:00+00:00: –, model-1, provider-1, a1" in found.output
    assert "4 put right" in (await asyncio.to_thread(run, "--repair")).output
    assert "0 wrong" in (await asyncio.to_thread(run)).output
    await keep_sums(store, wanted=False)
    assert "TURNMILL_USAGE_SUMS is off" in (await asyncio.to_thread(run)).output
