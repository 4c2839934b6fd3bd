"""`turnmill export --format sft | atif`: files that others load, the same bytes each time."""

import asyncio
import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from atif import Trajectory
from click.testing import CliRunner, Result

from pipeline.__main__ import cli
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.datasets import add_turns
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.stores.turns import write_turns
from pipeline.turns.requests import digest
from tests.support.datasets import check_openai
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid, turn_id
from turnmill.publish.feedback import made as made_feedback

ASKED: dict[str, Any] = {
    "system": "be brief",
    "tools": [{"name": "look", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}],
}


@pytest.fixture
async def filled(store: ThreadStore, record: Any) -> None:
    """Two threads of two agents and two tenants; a turn of each was interrupted."""
    for chat, agent, tenant in (("chat", "a1", "acme"), ("other", "a2", "globex")):
        made = record(chat, "r1", seconds=2, text="Sunny.", agent_id=agent, tenant=tenant)
        made["turn"]["messages"][0]["meta:request"] = {"sha256": digest(ASKED)}
        made["requests"] = {digest(ASKED): ASKED}
        user = record(chat, "r1", "user", role="user", text=f"Weather for {chat}?", agents=[], tenant=tenant)
        cut = record(chat, "r2", seconds=9, status="interrupted", text="Once", agent_id=agent, tenant=tenant)
        await write_turns(store, [user, made, cut])


@pytest.fixture
async def versions(store: ThreadStore, record: Any) -> None:
    """A question with three answers, of which feedback says something, and a thread of which it says the whole."""
    made = [record("chat", "r0", "user", role="user", text="Weather?", agents=[])]
    for number, text in enumerate(("Bad.", "Good.", "Fair.")):
        one = record("chat", f"r{number + 1}", seconds=2 + number, text=text, tokens=number)
        one["lineage"] = {"follows": "r0", **({"replaces": "r1"} if number else {})}
        made.append(one)
    made += [record("other", "r1", text="Rain."), record("third", "r1", text="Snow.")]
    for one in made:  # as assembly marks them
        one["turn"] |= {"meta:turn_id": one["turn_id"], "meta:run_id": one["run_id"]}
    await write_turns(store, made)
    said = [
        ("chat", 0, {"run_id": "r1"}),
        ("chat", 1, {"run_id": "r2"}),
        ("chat", 0.5, {"run_id": "r3"}),
        ("other", 1, {}),
    ]
    await add_feedback(
        store,
        [
            ReceivedFeedback(made_feedback(chat, None, {"name": "good", "value": value, **about}), 1, place)  # type: ignore[arg-type]  # a made record
            for place, (chat, value, about) in enumerate(said)
        ],
    )


@pytest.fixture
def export(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TURNMILL_STORE", store_url)

    def run(*args: str) -> Result:
        return CliRunner().invoke(cli, ["export", *args], standalone_mode=False)

    return run


def loaded(kind: str, file: Path) -> list[Any]:
    cache = str(file.parent / "cache")
    found: list[Any] = datasets.load_dataset(kind, data_files=str(file), split="train", cache_dir=cache).to_list()
    return found


def test_lines_load_and_stay_the_same(export: Any, filled: None, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.jsonl", "two.jsonl", "one.parquet", "two.parquet")]
    for file in files:
        assert export("--format", "sft", "--out", str(file)).exception is None
    one, two, packed, again = (file.read_bytes() for file in files)
    assert (one, packed) == (two, again)
    lines = [json.loads(line) for line in one.splitlines()]
    assert len({line["metadata"]["thread_id"] for line in lines}) == len(lines) == 2
    for line in lines:
        check_openai(line)
        assert [message["role"] for message in line["messages"]] == ["system", "user", "assistant"]
        assert [tool["function"]["name"] for tool in line["tools"]] == ["look"]
    assert [line["metadata"] for line in loaded("json", files[0])] == [line["metadata"] for line in lines]
    assert [{name: json.loads(text) for name, text in row.items()} for row in loaded("parquet", files[2])] == lines


def test_trajectories_validate(export: Any, filled: None, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in export("--format", "atif").output.splitlines()]
    assert len(lines) == 2
    for line in lines:
        sources = [step.source for step in Trajectory.model_validate(line).steps]
        assert sources[:3] == ["system", "user", "agent"]
    file = tmp_path / "one.parquet"
    assert export("--format", "atif", "--out", str(file)).exception is None
    assert [json.loads(row["steps"]) for row in loaded("parquet", file)] == [line["steps"] for line in lines]


def test_some_threads_are_chosen(export: Any, filled: None) -> None:
    assert len(export("--format", "sft").output.splitlines()) == 2
    for given in (("--agent", "a1"), ("--tenant", "acme"), ("--search", "weather FOR chat")):
        [line] = export("--format", "sft", *given).output.splitlines()
        assert json.loads(line)["messages"][1]["content"] == "Weather for chat?"
    for given in (("--agent", "nobody"), ("--model", "none"), ("--min-cost", "9"), ("--status", "complete")):
        assert export(*given).output == ""
    [line] = export("--search", "for other").output.splitlines()
    assert json.loads(line)["turns"]


def test_what_a_data_set_has_no_place_for_is_refused(export: Any, filled: None) -> None:
    for given in (("--partial",), ("--requests",), ("chat", "--branch", "r1"), ("--for-version", "1.20")):
        assert isinstance(export("--format", "sft", *given).exception, CallerError)
    assert isinstance(export("chat", "--agent", "a1").exception, CallerError)


def test_feedback_chooses_turns_and_threads(export: Any, versions: None) -> None:
    def answers(condition: str) -> set[str]:
        lines = export("--format", "sft", "--feedback", condition).output.splitlines()
        return {json.loads(line)["messages"][-1]["content"] for line in lines}

    assert answers("good>=1") == {"Good.", "Rain."}
    assert answers("good<1") == {"Bad.", "Fair."}
    assert answers("other>=0") == set()
    assert len(export("--feedback", "good>=1").output.splitlines()) == 2
    assert len(export("--format", "atif", "--feedback", "good=1").output.splitlines()) == 2
    wrong = export("--feedback", "good").exception
    assert isinstance(wrong, CallerError)
    assert "NAME>=VALUE" in str(wrong)


def test_versions_that_feedback_tells_apart_are_pairs(export: Any, versions: None, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    assert export("--format", "dpo", "--out", str(file)).exception is None
    [pair] = map(json.loads, file.read_text().splitlines())
    assert (pair["chosen"], pair["rejected"]) == (
        [{"role": "assistant", "content": "Good."}],
        [{"role": "assistant", "content": "Bad."}],
    )
    assert pair["prompt"] == [{"role": "user", "content": "Weather?"}]
    assert (pair["metadata"]["chosen"]["score"], pair["metadata"]["rejected"]["score"]) == (1, 0)
    assert loaded("json", file)[0]["chosen"] == pair["chosen"]
    assert export("--format", "dpo", "--feedback", "good<1").output == ""
    assert len(export("--format", "dpo", "--feedback", "good>=1").output.splitlines()) == 1


def test_threads_are_chosen_by_tool_and_time(export: Any, filled: None) -> None:
    assert export("--tool", "look").output == ""
    assert len(export("--since", "2026-01-01").output.splitlines()) == 2
    assert export("--until", "2026-01-01").output == ""
    assert isinstance(export("chat", "--tool", "look").exception, CallerError)


async def chosen(store: ThreadStore, chat: str, *runs: str) -> None:
    for run in runs:
        await add_turns(
            store, ThreadKey.of(thread_uuid(chat)[0], None), "golden", turn_id(thread_uuid(chat)[0], run), 1
        )


@pytest.mark.usefixtures("versions")
async def test_of_a_data_set_of_the_store_only_its_turns(store: ThreadStore, export: Any) -> None:
    await chosen(store, "chat", "r1", "r2")
    await chosen(store, "third", "r1")

    async def lines(form: str, *more: str) -> list[Any]:
        done = await asyncio.to_thread(export, "--format", form, "--dataset", "golden", *more)
        assert done.exception is None
        return [json.loads(line) for line in done.stdout.splitlines()]

    by_thread = {line["thread_id"]: line for line in await lines("thread")}
    assert [turn["meta:run_id"] for turn in by_thread[thread_uuid("chat")[0]]["turns"]] == ["r1", "r2"]
    assert by_thread.keys() == {thread_uuid("chat")[0], thread_uuid("third")[0]}
    spoken = [[message["content"] for message in line["messages"]] for line in await lines("openai-chat")]
    assert sorted(spoken) == [["Bad.", "Good."], ["Snow."]], "whatever branch they are of"
    trained = [line["messages"] for line in await lines("sft")]
    assert sorted([message["content"] for message in messages] for messages in trained) == [
        ["Snow."],
        ["Weather?", "Bad."],
        ["Weather?", "Good."],
    ]
    [pair] = await lines("dpo")
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("Good.", "Bad.")
    assert {step["message"] for line in await lines("atif") for step in line["steps"]} == {"Bad.", "Good.", "Snow."}
    [best] = await lines("sft", "--feedback", "good>=1")
    assert best["messages"][-1]["content"] == "Good."
    done = await asyncio.to_thread(export, "--dataset", "gold")
    assert "there is no data set 'gold': `turnmill datasets list`" in str(done.exception)
    assert "leave out the ids" in str((await asyncio.to_thread(export, "chat", "--dataset", "golden")).exception)
