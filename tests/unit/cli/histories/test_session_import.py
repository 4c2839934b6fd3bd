"""Files of sessions, imported again and again while they grow: each event is handed on once."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.cli.histories.session_files import SOURCES, files_of
from pipeline.cli.histories.session_import import OVER_AFTER, File, Import
from pipeline.dialects.transcript import RunOpened
from tests.support.sessions import Claude, Codex, Copilot, Gemini, Opencode, named, write
from turnmill.errors import CallerError, InvalidRecord, Reason

Fields = dict[str, Any]
TOO_LARGE = 5_000


class Out:
    """A run that is handed on; refuses events that are too large."""

    def __init__(self, opened: RunOpened, first_seq: int) -> None:
        self.opened = opened
        self.first_seq = first_seq
        self.events: list[Fields] = []
        self.over: str | None = None

    async def send(self, event: Fields, *, at: int | None = None) -> None:
        assert self.over is None
        if len(str(event)) > TOO_LARGE:
            raise InvalidRecord(Reason.TOO_LARGE, "")
        self.events.append(event)

    async def end(self, end: str = "complete", *, at: int | None = None) -> None:
        self.over = end

    def leave(self) -> None:
        self.over = "left"


class Store:
    """A sink that stores what it was handed when it is told to: `settle` closes all runs, as workers do."""

    def __init__(self) -> None:
        self.runs: list[Out] = []
        self.threads: dict[str, dict[str, int]] = {}
        self.live: dict[str, list[int]] = {}

    async def stored(self, thread: str) -> Mapping[str, int]:
        return dict(self.threads.get(thread, {}))

    async def answered(self, thread: str) -> list[int]:
        return self.live.get(thread, [])

    def run(self, opened: RunOpened, dialect: str, first_seq: int) -> Out:
        self.runs.append(Out(opened, first_seq))
        return self.runs[-1]

    def settle(self) -> None:
        for run in self.runs:
            known = self.threads.setdefault(run.opened.thread, {})
            known[run.opened.run] = max(known.get(run.opened.run, 0), run.first_seq + len(run.events))

    def taken(self) -> list[Out]:
        """What was handed on since the last time."""
        runs, self.runs = self.runs, []
        return runs


def run_import(store: Store, home: Path, source: str = "claude-code", now: int = 0) -> Import:
    reading = Import(SOURCES[source], store)

    async def read() -> None:
        for path in await reading.stored_first(files_of(SOURCES[source], [home])):
            file = reading.open(path)
            await reading.read(file, lambda _: None)
            await reading.settle(file, now)
            reading.close(file)

    asyncio.run(read())
    return reading


def conversation() -> Claude:
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.say("It is hot.")
    claude.ask("Bake bread")
    claude.call("t1")
    return claude


def test_the_last_run_stays_open_and_all_others_end(tmp_path: Path) -> None:
    conversation().write(tmp_path)
    store = Store()
    assert run_import(store, tmp_path).counts.new == 2
    assert [run.over for run in store.runs] == ["complete", "left"]


@pytest.mark.parametrize(("since", "over"), [(OVER_AFTER, "left"), (OVER_AFTER + 1, "disconnected")])
def test_a_run_that_nobody_goes_on_with_for_an_hour_is_over(tmp_path: Path, since: int, over: str) -> None:
    claude = conversation()
    last = int(claude.began.timestamp() + len(claude.lines)) * 1000
    claude.write(tmp_path)
    store = Store()
    counts = run_import(store, tmp_path, now=last + since).counts
    assert [run.over for run in store.runs] == ["complete", over]
    assert (counts.new, counts.known) == (2, 0)


def test_a_file_that_is_followed_goes_on_behind_a_run_that_was_over(tmp_path: Path) -> None:
    claude, store = conversation(), Store()
    now = int(claude.began.timestamp() * 1000) + 2 * OVER_AFTER
    run = read_twice(store, claude, tmp_path, lambda: claude.result("t1"), now=now)
    before = store.runs[-2]
    assert (before.over, run.opened.run, run.opened.info["continues"]) == (
        "disconnected",
        f"{before.opened.run}+2",
        before.opened.run,
    )
    assert len(run.events) == 1


def test_again_changes_nothing(tmp_path: Path) -> None:
    conversation().write(tmp_path)
    store = Store()
    run_import(store, tmp_path)
    store.settle()
    store.taken()
    reading = run_import(store, tmp_path)
    assert store.taken() == []
    assert (reading.counts.new, reading.counts.known) == (0, 2)


@pytest.mark.parametrize(
    ("second", "handed_on"),
    [(0.9, 2), (1, 1), (1.5, 1), (3.1, 1), (5.1, 2)],
    ids=["before", "at its question", "before its answer", "during the next run", "behind both"],
)
def test_a_run_during_which_a_response_was_captured_is_stored(tmp_path: Path, second: float, handed_on: int) -> None:
    claude, store = conversation(), Store()
    claude.write(tmp_path)
    store.live[claude.session] = [int((claude.began.timestamp() + second) * 1000)]
    counts = run_import(store, tmp_path).counts
    assert len(store.taken()) == handed_on
    assert (counts.new, counts.known) == (handed_on, 2 - handed_on)


def test_what_a_captured_run_goes_on_with_is_not_handed_on(tmp_path: Path) -> None:
    claude, store = conversation(), Store()
    claude.write(tmp_path)
    store.live[claude.session] = [int((claude.began.timestamp() + second) * 1000) for second in (2, 4)]
    run_import(store, tmp_path)
    claude.result("t1")
    claude.write(tmp_path)
    run_import(store, tmp_path)
    assert store.taken() == []


def test_what_comes_behind_a_stored_run_is_a_run_that_continues_it(tmp_path: Path) -> None:
    claude = conversation()
    claude.write(tmp_path)
    store = Store()
    run_import(store, tmp_path)
    store.settle()
    last = store.taken()[-1].opened
    claude.result("t1")
    claude.write(tmp_path)
    run_import(store, tmp_path)
    store.settle()
    claude.say("Baked.")
    asked = claude.ask("Eat it")
    claude.write(tmp_path)
    (result,) = store.taken()
    run_import(store, tmp_path)
    answer, eating = store.taken()
    assert [run.opened.run for run in (result, answer)] == [f"{last.run}+2", f"{last.run}+3"]
    assert [len(run.events) for run in (result, answer)] == [1, 1]
    assert result.opened.info["continues"] == last.run
    assert answer.opened.info["continues"] == result.opened.run
    assert eating.opened.info["continues"] == answer.opened.run, "the run goes on behind the last part"
    assert (eating.opened.run, answer.first_seq) == (asked["uuid"], 0)


def test_a_run_that_is_not_stored_yet_is_sent_again_with_the_same_numbers(tmp_path: Path) -> None:
    claude = conversation()
    claude.write(tmp_path)
    store = Store()
    run_import(store, tmp_path)
    before = store.taken()[-1]
    claude.result("t1")
    claude.write(tmp_path)
    run_import(store, tmp_path)
    after = store.taken()[-1]
    assert (after.opened.run, after.first_seq) == (before.opened.run, 0)
    assert after.events[: len(before.events)] == before.events


def read_twice(store: Store, claude: Claude, home: Path, grow: Any, settled: float = 60.0, now: int = 0) -> Out:
    """Read a file that is followed, and what it has more after `grow` -> the last run that was handed on."""
    reading = Import(SOURCES["claude-code"], store, settled)

    async def read() -> None:
        file: File = reading.open(claude.write(home))
        await reading.read(file, lambda _: None)
        await reading.settle(file, now)
        grow()
        claude.write(home)
        await reading.read(file, lambda _: None)

    asyncio.run(read())
    return store.runs[-1]


def test_a_file_that_is_followed_goes_on_with_the_open_run(tmp_path: Path) -> None:
    claude = conversation()
    run = read_twice(Store(), claude, tmp_path, lambda: claude.result("t1"))
    assert len(run.events) == 3
    assert run.over is None


def test_a_file_that_is_followed_after_its_run_was_closed(tmp_path: Path) -> None:
    claude, store = conversation(), Store()

    def grow() -> None:
        store.settle()
        claude.result("t1")

    run = read_twice(store, claude, tmp_path, grow)
    assert (run.opened.run, len(run.events)) == (f"{store.runs[-2].opened.run}+2", 1)
    assert store.runs[-2].over == "left"


def test_a_run_that_ended_takes_no_more_after_a_moment(tmp_path: Path) -> None:
    claude, store = Claude("one"), Store()
    claude.ask("Heat the oven")
    claude.say("It is hot.")
    more = {"type": "ai-title", "aiTitle": "Oven", "sessionId": claude.session}
    run = read_twice(store, claude, tmp_path, lambda: claude.lines.append(more), settled=-1.0)
    assert (run.opened.run, len(run.events)) == (f"{store.runs[0].opened.run}+2", 1)


def test_damaged_files_give_all_that_can_be_read(tmp_path: Path) -> None:
    claude = conversation()
    claude.lines[1:1] = ["{broken\n", "[1, 2]\n", "\n", '{"type": "user", "uuid": "u", "message": 7}\n', "\x00\x00\n"]
    claude.lines += ['{"type": "assistant", "messa']
    path = claude.write(tmp_path)
    store = Store()
    reading = run_import(store, tmp_path)
    assert [len(run.events) for run in store.runs] == [2, 2]
    assert reading.counts.broken == [f"{path}:{number}" for number in (2, 3, 5, 6)]


def test_a_last_line_that_is_not_whole_waits_for_the_rest(tmp_path: Path) -> None:
    claude = conversation()
    whole = claude.result("t1")
    claude.lines[-1] = '{"type": "user", '
    store = Store()

    def grow() -> None:
        claude.lines[-1] = whole

    assert len(read_twice(store, claude, tmp_path, grow).events) == 3


def test_what_is_too_large_for_a_record_is_cut(tmp_path: Path) -> None:
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.call("t1")
    claude.result("t1", "ok", toolUseResult={"stdout": "x" * TOO_LARGE})
    claude.write(tmp_path)
    store = Store()
    assert run_import(store, tmp_path).counts.cut == 1
    assert "tool_use_result" not in store.runs[0].events[-1]


def test_sub_agents_and_forks_are_found_whatever_their_place(tmp_path: Path) -> None:
    claude = conversation()
    child = claude.agent("a1")
    child.ask("Where is it?")
    child.say("In the kitchen.")
    path = write(child.agent_file(tmp_path), child.lines)
    path.with_suffix(".meta.json").write_text('{"agentType": "finder", "toolUseId": "t1"}')
    fork = Claude("aaa")  # sorted by name it would come first
    origin = {"sessionId": claude.session, "messageUuid": claude.lines[0]["uuid"]}  # type: ignore[index]
    fork.ask("Heat the oven", forkedFrom=origin)
    fork.ask("Bake cake")
    fork.write(tmp_path)
    claude.write(tmp_path)
    store = Store()
    run_import(store, tmp_path)
    by_words = {run.events[0]["message"]["content"]: run.opened for run in store.runs}
    assert by_words["Where is it?"].thread == f"{claude.session}/a1"
    assert by_words["Where is it?"].agent == "finder"
    assert by_words["Where is it?"].info["parent_thread_id"] == claude.session
    assert by_words["Bake cake"].thread == claude.session
    assert by_words["Bake cake"].info["continues"] == by_words["Heat the oven"].run
    assert len(store.runs) == 4


@pytest.mark.parametrize("names", [("ccc", "bbb", "aaa"), ("aaa", "bbb", "ccc"), ("bbb", "aaa", "ccc")])
def test_a_fork_of_a_fork_adds_only_its_own_runs(tmp_path: Path, names: tuple[str, ...]) -> None:
    """A line that was copied twice names the copy in the first fork, whose file may come later by its name."""
    claude, fork, second = map(Claude, names)
    asked = claude.ask("Heat the oven")
    claude.say("It is hot.")
    copied = fork.ask("Heat the oven", forkedFrom={"sessionId": claude.session, "messageUuid": asked["uuid"]})
    own = fork.ask("Bake cake")
    second.ask("Heat the oven", forkedFrom={"sessionId": fork.session, "messageUuid": copied["uuid"]})
    second.ask("Bake cake", forkedFrom={"sessionId": fork.session, "messageUuid": own["uuid"]})
    second.ask("Bake pie")
    for session in (claude, fork, second):
        session.write(tmp_path)
    store = Store()
    run_import(store, tmp_path)
    runs = {run.events[0]["message"]["content"]: run.opened for run in store.runs}
    assert len(store.runs) == len(runs) == 3
    assert {opened.thread for opened in runs.values()} == {claude.session}
    assert runs["Bake pie"].info["continues"] == runs["Bake cake"].run
    assert runs["Bake cake"].info["continues"] == runs["Heat the oven"].run


def test_a_session_that_is_stored_keeps_its_thread_whatever_was_forked_from_it(tmp_path: Path) -> None:
    claude = Claude("one")
    claude.ask("Heat the oven")
    claude.say("It is hot.")
    claude.write(tmp_path)
    store = Store()
    run_import(store, tmp_path)
    store.settle()
    store.taken()
    fork = Claude("two")  # as Claude Code copies a session: with its uuids
    fork.lines = [{**line, "sessionId": fork.session} for line in claude.lines if isinstance(line, dict)]
    fork.last, fork._second = claude.last, 50
    fork.ask("Bake bread")
    fork.lines.insert(0, {"type": "mode", "timestamp": "2026-01-01T00:00:00.000Z"})  # it seems to be older
    fork.write(tmp_path)
    run_import(store, tmp_path)
    (run,) = store.taken()
    assert run.opened.thread == claude.session
    assert run.opened.info["continues"] == claude.lines[0]["uuid"]  # type: ignore[index]


def test_codex_and_its_index_of_names(tmp_path: Path) -> None:
    codex = Codex("one")
    codex.ask("t-1", "List")
    codex.say("a.txt")
    codex.write(tmp_path)
    write(tmp_path / "session_index.jsonl", [{"id": codex.session, "thread_name": "Files"}])
    store = Store()
    run_import(store, tmp_path / "sessions", "codex")
    (run,) = store.runs
    assert (run.opened.thread, run.opened.info["thread"]["title"]) == (codex.session, "Files")


def zipped(home: Path, *names: str) -> list[Path]:
    """Rollouts as Codex 0.171 leaves them after seven days."""
    files = []
    for name in names:
        codex = Codex(name)
        codex.ask(f"t-{name}", f"List {name}")
        codex.say("a.txt")
        codex.write(home)
        plain = home / codex.file
        files.append(plain.with_name(f"{plain.name}.zst"))
        files[-1].write_bytes(zstandard.compress(plain.read_bytes()))
        plain.unlink()
    return files


def test_rollouts_of_codex_that_it_has_compressed(tmp_path: Path) -> None:
    first, second = zipped(tmp_path, "one", "two")
    store = Store()
    run_import(store, tmp_path / "sessions", "codex")
    store.settle()
    taken = {run.opened.run: run.opened.thread for run in store.taken()}
    assert taken == {"t-one": named("one"), "t-two": named("two")}
    first.with_suffix("").write_bytes(zstandard.decompress(first.read_bytes()))  # both, while it is compressed
    second.write_bytes(second.read_bytes()[:-9] + b"damaged!!")
    again = run_import(store, tmp_path / "sessions", "codex")
    assert (again.counts.files, again.counts.new, store.taken()) == (2, 0, [])
    assert [str(second) in line for line in again.counts.unread] == [True]


def test_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CallerError, match=r"\.claude/projects does not exist: name the folder"):
        files_of(SOURCES["claude-code"], [])
    path = Claude("one").write(tmp_path / ".claude")
    os.mkfifo(path.with_name("waits.jsonl"))  # nobody writes there
    other = Codex("one").write(tmp_path / ".codex")
    kept = Opencode("one").write(tmp_path / ".local" / "share")
    assert files_of(SOURCES["claude-code"], []) == [path]
    assert files_of(SOURCES["codex"], []) == [other]
    third = Copilot("one").write(tmp_path / ".copilot")
    assert files_of(SOURCES["copilot-cli"], []) == [third]
    assert files_of(SOURCES["opencode"], []) == [kept]
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / named("elsewhere")))
    with pytest.raises(CallerError, match="does not exist"):
        files_of(SOURCES["codex"], [])


def test_sessions_of_gemini_cli_in_lines_and_in_one_object(tmp_path: Path) -> None:
    gemini = Gemini("one")
    gemini.ask("List")
    gemini.say("I look.")
    gemini.call("c1")
    gemini.say("A file.")
    gemini.write(tmp_path)
    facts, *lines = gemini.lines
    messages = [line for line in lines if isinstance(line, dict) and "id" in line]
    newest = list({line["id"]: line for line in messages}.values())
    old = tmp_path / "tmp/old/chats/session-2026-01-20T09-00-abcdefab.json"
    whole = {**facts, "sessionId": "old", "messages": [{**one, "id": f"old {one['id']}"} for one in newest]}  # type: ignore[dict-item]
    write(old, [json.dumps(whole, indent=2)])
    store = Store()
    assert run_import(store, tmp_path, "gemini-cli").counts.new == 2
    whole_run, in_lines = store.taken()
    assert (whole_run.opened.thread, in_lines.opened.thread) == ("old", gemini.session)
    assert [event.get("candidates") for event in whole_run.events] == [e.get("candidates") for e in in_lines.events]
    write(old.with_suffix(".jsonl"), [{**facts, "sessionId": "old"}])  # type: ignore[dict-item]
    assert run_import(store, tmp_path, "gemini-cli").counts.new == 1
    store.taken()
    broken = tmp_path / "tmp/old/chats/session-2026-01-20T09-00-abcdefac.json"
    write(broken, ["{\n"])
    assert run_import(store, tmp_path, "gemini-cli").counts.broken == [f"{broken}:1"]


@pytest.mark.parametrize(
    ("written", "title"),
    [("A listing", "A listing"), ("'Of: ''a'' list'", "Of: 'a' list"), ('|-\n  "A": #1\n  and more', '"A": #1')],
)
def test_sessions_of_copilot_cli_in_folders_and_in_files(tmp_path: Path, written: str, title: str) -> None:
    copilot, old = Copilot("one"), Copilot("two")
    for one in (copilot, old):
        one.ask("List")
        one.say("I look.", call="c1")
        one.result("c1")
        one.say("A file.")
    path = copilot.write(tmp_path)
    write(path.with_name("workspace.yaml"), [f"id: {copilot.session}\nname: {written}\nuser_named: true\n"])
    write(path.parent / "files" / "notes.jsonl", ["{}\n"])  # the session's, and no session
    write(tmp_path / f"session-state/{old.session}.jsonl", old.lines)
    store = Store()
    assert run_import(store, tmp_path, "copilot-cli").counts.new == 2
    titles = {run.opened.thread: run.opened.info["thread"].get("title") for run in store.runs}
    assert titles == {copilot.session: title, old.session: None}
    store.settle()
    store.taken()
    assert run_import(store, tmp_path, "copilot-cli").counts.new == 0

    more = [line for line in copilot.lines if isinstance(line, dict)]
    copilot.ask("Again")
    copilot.say("Still one.")
    copilot.lines = [*copilot.lines[len(more) :], "{broken\n", '{"type": "user.message"}\n', '{"type": "user.mes']
    copilot.write(tmp_path, "a")
    number = len(path.read_text().splitlines())
    reading = run_import(store, tmp_path, "copilot-cli")
    assert reading.counts.broken == [f"{path}:{number - 2}", f"{path}:{number - 1}"]
    (run,) = store.taken()
    assert run.opened.info["continues"] == more[1]["id"]


def test_what_copilot_cli_has_taken_back_is_a_branch(tmp_path: Path) -> None:
    copilot = Copilot("one")
    first = copilot.ask("One")
    copilot.say("1")
    kept = list(copilot.lines)
    copilot.ask("Two")
    copilot.say("2")
    copilot.write(tmp_path)
    store = Store()
    run_import(store, tmp_path, "copilot-cli")
    store.settle()
    store.taken()
    copilot.lines = kept
    third = copilot.ask("Three")
    copilot.say("3")
    copilot.write(tmp_path)
    run_import(store, tmp_path, "copilot-cli")
    (run,) = store.taken()
    assert (run.opened.run, run.opened.info["continues"]) == (third["id"], first["id"])
