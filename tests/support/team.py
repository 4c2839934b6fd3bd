"""A fleet of 200 agents, 50 users and 10 projects over the last ten days: turn records and feedback, made at once."""

from collections.abc import Sequence
from typing import Final

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.stores.turns import write_turns
from pipeline.turns.requests import REQUEST, set_apart
from pipeline.turns.times import iso
from tests.support.turn_records import Record, make_record
from turnmill.publish.feedback import made

AGENTS, USERS, PROJECTS, BRANCHES, RUNS = 200, 50, 10, 3, 1_000
DAY: Final = 86_400_000  # ms
SPAN: Final = 10 * DAY
TOOLS: Final = ("search", "refund", "lookup")
PROMPTS: Final = tuple(
    {"system": f"You help. Version {n}", "tools": [{"name": tool, "input_schema": {}} for tool in TOOLS]}
    for n in (1, 2)
)
SLOW: Final = "the slow one"
TOOK_MS: Final = 42_000  # of the tool in the slow turn


def run_of(n: int, now: int) -> Record:
    """The n-th run: a model, a tool that may fail, and the model again; `refund` fails in every second of its runs."""
    tool = TOOLS[n % 3]
    failed = tool == "refund" and n % 2 == 1
    record = timed(f"chat{n}", now - SPAN + n * (SPAN // (RUNS + 1)), tool, "error" if failed else "success", 400, n)
    labels = {"user": f"user{n % USERS}", "project": f"project{n % PROJECTS}", "branch": f"branch{n % BRANCHES}"}
    record["thread"]["meta:labels"] = labels
    return record


def timed(chat: str, begun: int, tool: str, status: str, took: int, n: int) -> Record:
    """An agent's turn: its model for 300 ms, a tool for `took` ms, its model for 500 ms."""
    record = make_record(chat, f"run of {chat}", agent_id=f"agent{n % AGENTS}")
    turn, [response] = record["turn"], record["turn"]["messages"]
    response |= {REQUEST: PROMPTS[n % 2], "usage": {"input_tokens": 10 + n, "cost": (1 + n % 7) / 1000}}
    call = {"part_kind": "tool-call", "tool_name": tool, "tool_call_id": f"c{n}", "args": {}}
    result = {**call, "part_kind": "tool-return", "status": status, "content": "done"}
    answered = begun + 300 + took
    turn |= {"started_at": iso(begun), "completed_at": iso(answered + 500)}
    turn["messages"] = [
        {**response, "timestamp": iso(begun + 300), "parts": [call]},
        {"message_type": "request", "timestamp": iso(answered), "agent_id": turn["agent_id"], "parts": [result]},
        {**response, "timestamp": iso(answered + 200)},
    ]
    turn |= {"meta:turn_id": record["turn_id"], "meta:run_id": record["run_id"]}
    record["timings"] = [{"ttft_ms": 250, "duration_ms": 300}, {"ttft_ms": took + 200, "duration_ms": took + 500}]
    return set_apart(record)  # type: ignore[arg-type,return-value]  # a record of the test


def fleet(now: int) -> list[Record]:
    """All runs, and at last the slow one."""
    return [*(run_of(n, now) for n in range(RUNS)), timed(SLOW, now - 60_000, "search", "success", TOOK_MS, 1)]


def judgements(runs: Sequence[Record], now: int) -> list[tuple[int, bool, str | None]]:
    """Of every tenth run (its number), whether it helped, and why not: that with the second prompt rarely does."""
    return [
        (n, helped, None if helped else f"no refund for order {n}")
        for n in range(0, len(runs) - 1, 5)
        for helped in [(n % 4 > 0) if n % 2 == 0 else n % 25 == 0]
    ]


async def stored(store: ThreadStore, now: int) -> list[Record]:
    """Write the fleet and what was said of it; return its records."""
    runs = fleet(now)
    for first in range(0, len(runs), 100):
        await write_turns(store, runs[first : first + 100])  # type: ignore[arg-type]  # as above
    given = [
        made(runs[n]["thread_id"], None, {"name": "helpful", "value": helped, "comment": why, "by": "ann"})
        for n, helped, why in judgements(runs, now)
    ]
    await add_feedback(store, [ReceivedFeedback(one, now, place) for place, one in enumerate(given)])  # type: ignore[arg-type]  # as above
    return runs


def last_week(runs: Sequence[Record], now: int, **labels: str) -> list[Record]:
    """The runs of the last seven days that have these labels."""
    return [
        run
        for run in runs
        if run["turn"]["completed_at"] >= iso(now - 7 * DAY)
        and labels.items() <= run["thread"].get("meta:labels", {}).items()
    ]


def cost_of(runs: Sequence[Record]) -> float:
    """The dollars that their responses say that they cost."""
    return sum(message["usage"]["cost"] for run in runs for message in run["turn"]["messages"] if "usage" in message)
