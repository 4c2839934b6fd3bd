"""`turnmill rerun`: the request behind a stored answer goes out again, changed, and the answers are compared."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import find_threads, read_thread
from pipeline.stores.turns import write_turns
from tests.support.commands import turnmill
from tests.support.spools import away, spooled
from tests.support.upstream import Answering, Asked, Upstream, chat_answer, chat_chunks, playing
from turnmill.identity import thread_uuid

KEY = "sk-of-the-caller-0123456789"
ASKED = {
    "model": "gpt-5",
    "temperature": 1,
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Weather?"}],
}


def answer(chat: str, tenant: str | None = None, provider: str = "openai") -> list[Any]:
    """The records of a run in which the model answered."""
    thread_id, name = thread_uuid(chat, tenant)
    events = [{"object": "turnmill.request", "request": ASKED}, chat_answer("Sunny.")]
    envelope = {
        "v": 1,
        "thread_id": thread_id,
        "run_id": "r1",
        "agent_id": "weather",
        "dialect": "openai-chat",
        "seq": 0,
        "ts": 1_768_903_200_000,
        "events": events,
        "end": "complete",
        "run": {"provider_name": provider, "model_name": "gpt-5", "external_id": name},
        **({"tenant": tenant} if tenant else {}),
    }
    return assemble(DIALECTS["openai-chat"], [envelope], keep_requests=True)[0]


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async def speaks(asked: Asked, answering: Answering) -> None:
        if asked.json["model"] == "gpt-none":
            await answering.whole({"error": {"message": f"no such model for {KEY}"}}, 404)
        elif asked.json.get("stream"):
            await answering.stream(*chat_chunks("It ", "rains.", model=asked.json["model"]), done=True)
        else:
            await answering.whole({**chat_answer("It rains."), "model": asked.json["model"]})

    async with playing(speaks) as found:
        yield found


@pytest.fixture
def rerun(store_url: str, tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> Any:
    settings = away(tmp_path / "home", store=store_url)
    monkeypatch.chdir(tmp_path)

    async def run(*arguments: str, status: int = 0, **more: str) -> tuple[str, Any]:
        variables = {"OPENAI_BASE_URL": f"{upstream.url}/v1", "OPENAI_API_KEY": KEY, **more}
        done = await turnmill(settings, "rerun", *arguments, **variables)
        assert done.returncode == status, done.stderr
        assert KEY not in done.stdout + done.stderr
        return done.stdout if status == 0 else done.stderr, settings

    return run


@pytest.mark.parametrize("provider", ["openai", "127.0.0.1"])
async def test_the_request_goes_out_as_it_was(
    store: ThreadStore, rerun: Any, upstream: Upstream, provider: str
) -> None:
    await write_turns(store, answer("chat", provider=provider))
    out, settings = await rerun("chat", "--json")
    (asked,) = upstream.asked
    assert asked.json == ASKED
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    pair = json.loads(out)
    assert (pair["before"]["text"], pair["after"]["text"]) == ("Sunny.", "It rains.")
    assert pair["before"]["cost_usd"] == pair["after"]["cost_usd"] is not None
    records = spooled(settings)
    assert records[0]["run"]["replaces"] == "r1"
    assert (records[0]["run_id"], records[-1]["end"]) == (pair["run_id"], "complete")
    assert KEY not in json.dumps(records)


async def test_what_is_changed_is_sent_and_stored_as_another_version(
    store: ThreadStore, rerun: Any, upstream: Upstream, tmp_path: Path
) -> None:
    await write_turns(store, answer("chat"))
    (tmp_path / "system.txt").write_text("Be exact.")
    tools = [{"type": "function", "function": {"name": "look"}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    out, settings = await rerun(
        *("chat", "--model", "gpt-5-mini", "--system", "system.txt", "--tools", "tools.json"),
        *("--set", "temperature=null", "--set", "stream=true", "--set", "reasoning_effort=low"),
    )
    system, user = {"role": "system", "content": "Be exact."}, ASKED["messages"][1]  # type: ignore[index]
    assert upstream.asked[0].json == {
        "model": "gpt-5-mini",
        "stream": True,
        "reasoning_effort": "low",
        "tools": tools,
        "messages": [system, user],
    }
    assert "It rains." in out
    assert "gpt-5-mini" in out
    made, _ = assemble(DIALECTS["openai-chat"], spooled(settings), keep_requests=True)
    await write_turns(store, made)
    document = await read_thread(store, (await find_threads(store, "chat"))[0])
    assert document is not None
    versions = [turn["meta:branch"]["version"] for turn in document["turns"] if turn["turn_type"] == "agent"]
    assert [(one["number"], one["of"]) for one in versions] == [(1, 2), (2, 2)]


async def test_a_change_is_tried_on_many_and_scored(
    store: ThreadStore, rerun: Any, upstream: Upstream, tmp_path: Path
) -> None:
    for number in range(5):
        await write_turns(store, answer(f"chat {number}"))
    judge = "import json, sys; print(len(json.load(sys.stdin)['turn']['messages'][0]['parts'][0]['content']))"
    (tmp_path / "judge.py").write_text(judge)
    scorer = f"{sys.executable} judge.py"
    out, settings = await rerun("--agent", "weather", "--limit", "4", "--no-publish", "--scorer", scorer)
    assert len(upstream.asked) == 4
    assert "0 of 4" in out
    assert spooled(settings) == []
    lines = (await rerun("--agent", "weather", "--no-publish", "--scorer", scorer, "--json"))[0].splitlines()
    scores = [(pair["before"]["score"], pair["after"]["score"]) for pair in map(json.loads, lines)]
    assert scores == [(len("Sunny."), len("It rains."))] * 5
    (tmp_path / "judging.py").write_text("def score(given):\n    return given['request']['temperature']\n")
    function = ("--scorer", "judging:score", "--limit", "1", "--no-publish", "--json")
    out, _ = await rerun("--agent", "weather", *function, PYTHONPATH=str(tmp_path))
    assert json.loads(out)["after"]["score"] == 1


async def test_each_problem_says_what_to_do(store: ThreadStore, rerun: Any, record: Any) -> None:
    await write_turns(store, [*answer("chat"), record("other", "r1")])
    for arguments, said in (
        (("chat", "--model", "gpt-none"), "no answer came"),
        (("nowhere",), "no thread 'nowhere' in the store"),
        (("other",), "other: no answer says what its model was asked"),
        (("chat", "--turn", "r9"), "the turn 'r9' is not there"),
        (("chat", "--set", "temperature"), "--set NAME=JSON is expected"),
        (("chat", "--set", "model.name=1"), "model.name: model is no object"),
        (("chat", "--agent", "weather"), "go without THREAD"),
        (("--turn", "r1"), "--turn needs its thread"),
        ((), "name a thread, or choose some"),
        (("--agent", "nobody"), "no answer of the chosen threads"),
        (("chat", "--scorer", "no-such-judge"), "--scorer: no-such-judge can't be started"),
        (("chat", "--scorer", "nowhere:score"), "--scorer nowhere:score: No module named"),
    ):
        problem, _ = await rerun(*arguments, status=2)
        assert said in problem, arguments
    assert "set OPENAI_API_KEY" in (await rerun("chat", status=2, OPENAI_API_KEY=""))[0]


async def test_a_tenants_answer_stays_its_own(store: ThreadStore, rerun: Any) -> None:
    for tenant in ("acme", "globex"):
        await write_turns(store, answer("chat", tenant))
    problem, _ = await rerun("chat", status=2)
    assert "several tenants have a thread" in problem
    out, settings = await rerun("chat", "--tenant", "acme", "--json")
    assert json.loads(out)["thread_id"] == thread_uuid("chat", "acme")[0]
    assert {one["tenant"] for one in spooled(settings)} == {"acme"}
