"""The database of opencode, imported again and again while it is written: each event is handed on once."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.histories.opencode_files import Sessions
from pipeline.cli.histories.session_files import SOURCES
from pipeline.cli.histories.session_import import Import
from pipeline.dialects.transcript import RunOpened
from tests.support.sessions import Opencode
from tests.unit.cli.histories.test_session_import import Out, Store, run_import
from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import RECORD_BYTES


def imported(home: Path, store: Store | None = None) -> list[tuple[str, list[str]]]:
    """What an import hands on: ids of runs, and the texts in them."""
    store = store or Store()
    run_import(store, home, "opencode")
    return [(run.opened.run, texts(run.events)) for run in store.taken()]


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [event["delta"] for event in events if "delta" in event]


def conversation() -> Opencode:
    opencode = Opencode("one")
    opencode.ask("List")
    opencode.answer("I look.", opencode.call("c1"), finish="tool-calls")
    opencode.answer("A file.")
    return opencode


def test_an_import_changes_nothing_on_the_disk_and_again_nothing_at_all(tmp_path: Path) -> None:
    opencode = conversation()
    path = opencode.write(tmp_path)
    before, store = path.read_bytes(), Store()
    assert imported(tmp_path, store) == [("msg_000_one", ["I look.", "A file."])]
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["opencode.db"]
    run_import(store, tmp_path, "opencode")
    store.settle()
    store.taken()
    assert imported(tmp_path, store) == []
    with closing(sqlite3.connect(path)) as writer:  # opencode runs
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE session SET title = 'Files'")
        assert len(imported(tmp_path)) == 1
        writer.commit()


def test_what_is_being_written_is_read_as_far_as_it_is_final(tmp_path: Path) -> None:
    whole, growing, store = conversation(), Opencode("one"), Store()
    reading = Import(SOURCES["opencode"], store)
    steps: list[list[str]] = []

    async def follow() -> None:
        file = reading.open(growing.write(tmp_path))

        async def look() -> None:
            growing.write(tmp_path)
            await reading.read(file, lambda _: None)
            steps.append([event["type"] for run in store.runs for event in run.events])

        (asked, words), (answer, said), last = whole.rows
        growing.rows = [(asked, [])]
        await look()  # a prompt without its words
        step, text, call, done = said
        unfinished = {**answer, "time": {"created": answer["time"]["created"]}}
        partial = {**text, "text": "I lo", "time": {"start": 1}}
        growing.rows = [(asked, words), (unfinished, [step, partial])]
        await look()
        pending = {**call, "state": {"status": "pending", "input": {}, "raw": ""}}
        growing.rows[1] = (unfinished, [step, text, pending])
        await look()
        growing.rows[1] = (unfinished, [step, text, {**pending, "state": {**call["state"], "status": "running"}}])
        await look()
        growing.rows[1] = (answer, [step, text, call, done])
        await look()
        growing.rows.append(last)
        await look()

    asyncio.run(follow())
    assert [len(one) for one in steps] == [0, 2, 5, 5, 9, len(steps[-1])]
    again = Store()
    run_import(again, tmp_path, "opencode")
    assert again.runs[0].events == store.runs[0].events
    assert len(store.runs) == len(again.runs) == 1


def test_a_command_of_the_users_own_ends_before_its_result_is_there(tmp_path: Path) -> None:
    opencode, store = conversation(), Store()
    opencode.ask({"type": "text", "text": "The user executed a tool", "synthetic": True})
    opencode.answer(opencode.call("c2", "running"), finish=None)["time"]["completed"] = 1_768_903_999_000
    reading = Import(SOURCES["opencode"], store)

    async def follow() -> None:
        file = reading.open(opencode.write(tmp_path))
        await reading.read(file, lambda _: None)
        opencode.rows[-1][1][1]["state"].update(status="completed", output="b.txt")
        opencode.write(tmp_path)
        await reading.read(file, lambda _: None)

    asyncio.run(follow())
    (run,) = store.runs
    assert [event["output"] for event in run.events if "output" in event] == ["a.txt", "b.txt"]


def test_a_prompt_that_was_taken_back_is_a_branch(tmp_path: Path) -> None:
    opencode, store = conversation(), Store()
    first = opencode.rows[0][0]["id"]
    reading = Import(SOURCES["opencode"], store)

    async def follow() -> None:
        opencode.ask("Bake bread")
        opencode.answer("Baked.")
        file = reading.open(opencode.write(tmp_path))
        await reading.read(file, lambda _: None)
        del opencode.rows[-2:]
        opencode.rows.append(({**opencode.ask("Bake cake"), "id": "msg_9"}, opencode.rows.pop()[1]))
        opencode.answer("Eaten.")
        opencode.write(tmp_path)
        await reading.read(file, lambda _: None)

    asyncio.run(follow())
    assert [run.opened.info.get("continues") for run in store.runs] == [None, first, first]


def test_damaged_rows_and_pages_give_all_that_can_be_read(tmp_path: Path) -> None:
    opencode = conversation()
    path = opencode.write(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        for name, data in (("prt_001_001_one", b"{\xff"), ("prt_002_001_one", b'{"type": "text"}')):
            database.execute("UPDATE part SET data = ? WHERE id = ?", (data, name))
        database.execute("INSERT INTO message VALUES ('msg_002_a', 'ses_one', 5, '7')")
        database.commit()
    store = Store()
    reading = run_import(store, tmp_path, "opencode")
    names = ("msg_002_a", "prt_001_001_one", "prt_002_001_one")
    assert sorted(reading.counts.broken) == [f"{path}:{name}" for name in names]
    kinds = [event["type"] for event in store.runs[0].events]
    assert "tool-output-available" in kinds
    assert kinds[-1] == "finish"
    path.write_bytes(b"SQLite format 3\x00" + b"\x07" * 5000)
    (unread,) = run_import(Store(), tmp_path, "opencode").counts.unread
    assert unread.startswith(f"{path} (")


def test_sessions_in_files_of_earlier_versions_and_the_same_in_the_database(tmp_path: Path) -> None:
    opencode = conversation()
    opencode.write_files(tmp_path)
    told = imported(tmp_path)
    assert told == [("msg_000_one", ["I look.", "A file."])]
    opencode.write(tmp_path)
    assert imported(tmp_path) == told
    (tmp_path / "opencode/storage/part/msg_002_one/prt_002_001_one.json").write_text("{")
    assert imported(tmp_path) == told, "the database comes first"
    (tmp_path / "opencode/opencode.db").unlink()
    assert imported(tmp_path) == [("msg_000_one", ["I look."])]


class Records(Store):
    """A sink whose records have an end."""

    def run(self, opened: RunOpened, dialect: str, first_seq: int) -> Out:
        if len(str(opened.info)) > RECORD_BYTES:
            raise InvalidRecord(Reason.TOO_LARGE, "")
        return super().run(opened, dialect, first_seq)


def test_a_prompt_that_is_too_large_for_a_record_is_cut(tmp_path: Path) -> None:
    opencode, store = Opencode("one"), Records()
    opencode.ask("x" * RECORD_BYTES)
    opencode.answer("Yes")
    opencode.write(tmp_path)
    assert run_import(store, tmp_path, "opencode").counts.cut == 1
    assert len(store.runs[0].events) > 1


def test_the_time_of_the_log_tells_that_there_is_more(tmp_path: Path) -> None:
    path = conversation().write(tmp_path)
    before = Sessions.extent(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE session SET title = 'Files'")
        database.commit()
        assert Sessions.extent(path) > before


@pytest.mark.parametrize("name", ["export.json", "a/b/c/export.json"])
def test_another_file_is_named_as_none_of_opencodes(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"info": {"id": "ses_1"}, "messages": []}')
    with pytest.raises(OSError, match=r"name opencode\.db"):
        list(Sessions(file).read())


def test_sessions_of_opencode_2_are_not_read_and_said_to_be_so(tmp_path: Path) -> None:
    path = conversation().write(tmp_path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("CREATE TABLE session_v2 (id text PRIMARY KEY, data text)")
        writer.commit()
        store = Store()
        assert run_import(store, tmp_path, "opencode").counts.unread == []
        assert [run.opened.run for run in store.taken()] == ["msg_000_one"], "those of version 1 are read"
        writer.execute("INSERT INTO session_v2 VALUES ('ses_2', '{}')")
        writer.commit()
        (said,) = run_import(Store(), tmp_path, "opencode").counts.unread
        assert said == f"{path} (1 sessions in the form of opencode 2, which is not read)"
        writer.execute("DROP TABLE session")
        writer.commit()
        assert run_import(Store(), tmp_path, "opencode").counts.unread == [said]
    path.unlink()
    file = tmp_path / "storage" / "session_v2" / "project" / "ses_2.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    (said,) = run_import(Store(), tmp_path, "opencode").counts.unread
    assert said.startswith(str(file))
