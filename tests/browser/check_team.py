"""What a team asks of a fleet of 200 agents, 50 users and 10 projects: each answered by at most three clicks from the
first page, and by a command.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Locator, Page, expect

from pipeline.__main__ import cli
from pipeline.devbroker.ports import free_ports
from pipeline.policies.alerts import parse
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.usage.alerts import look
from tests.browser.conftest import Open
from tests.browser.stage import in_a_thread, serving
from tests.support import team
from tests.support.places import CACHE
from tests.support.turn_records import Record

WEEK = "7 days"
DEAR = 0.555  # dollars of a project in a week: not all of them cost more
ALERTS = json.dumps(
    [
        {"name": "dear-projects", "figure": "cost_usd", "above": DEAR, "within": "7d", "by": "project"},
        {"name": "disliked", "figure": "feedback", "feedback": "helpful", "below": 0.6, "within": "7d"},
        {"name": "far-away", "figure": "cost_usd", "above": 1_000_000, "within": "7d"},
    ]
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is stored, and the gateway in front of it; no broker is there, since nothing is live."""

    url: str
    home: Path
    runs: list[Record]
    now: int

    def says(self, *command: str) -> Any:
        """What a command prints as JSON."""
        variables = {"TURNMILL_HOME": str(self.home), "TURNMILL_GATEWAY_PORT": "9"}
        run = partial(CliRunner(env=variables).invoke, cli, [*command, "--json"], catch_exceptions=False)
        done = in_a_thread(asyncio.to_thread(run))  # the browser's own event loop runs in this one
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def last_week(self, **labels: str) -> list[Record]:
        return team.last_week(self.runs, self.now, **labels)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    home, now = tmp_path_factory.mktemp("team"), int(time.time() * 1000)
    settings = Settings(home=home, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}", gateway_port=0, alerts=ALERTS)

    async def fill() -> list[Record]:
        async with await ThreadStore.open(settings.store_url, migrate=True) as store:
            stored = await team.stored(store, now)
            await look(store, parse(ALERTS), now)  # as the role of metrics does
            return stored

    runs = in_a_thread(fill())
    with serving(settings) as url:
        yield Fleet(url, home, runs, now)


@dataclass(slots=True)
class Reader:
    """Somebody at the first page, whose clicks are counted; a choice from a list is one."""

    page: Page
    clicks: int = 0

    def click(self, what: Locator) -> None:
        self.clicks += 1
        assert self.clicks <= 3
        what.click()

    def choose(self, label: str, value: str) -> None:
        self.clicks += 1
        assert self.clicks <= 3
        self.page.get_by_label(label).select_option(value)

    def week(self) -> None:
        self.click(self.page.get_by_role("group", name="Time range").get_by_text(WEEK))

    def chart(self, title: str) -> Locator:
        return self.page.get_by_role("region", name=title, exact=True)


@pytest.fixture
def reader(fleet: Fleet, opened: Open) -> Reader:
    return Reader(opened(f"{fleet.url}/"))


def in_dollars(value: float) -> str:
    return f"${value:.{2 if value >= 1 else 3}f}"


def test_why_was_this_turn_slow(fleet: Fleet, reader: Reader) -> None:
    page = reader.page
    reader.click(page.get_by_role("navigation").get_by_text("Threads"))
    reader.click(page.locator(".threads .row", has_text=team.SLOW))
    reader.click(page.locator(".turn .fold.timeline summary"))
    rows = page.locator(".fold.timeline > ol > li")
    expect(rows).to_have_count(3)
    assert rows.locator(".num:nth-child(4)").all_inner_texts() == ["300 ms", "42 s", "500 ms"]
    expect(rows.nth(1)).to_contain_text("search")
    [steps] = fleet.says("threads", "steps", team.SLOW).values()
    slowest = max(steps, key=lambda step: step["end"] - step["start"])
    assert (slowest["kind"], slowest["name"], slowest["end"] - slowest["start"]) == ("tool", "search", team.TOOK_MS)


def test_what_did_the_conversations_of_a_user_cost_last_week(fleet: Fleet, reader: Reader) -> None:
    cost = team.cost_of(fleet.last_week(user="user7"))
    assert (
        0
        < cost
        < team.cost_of([run for run in fleet.runs if run["thread"].get("meta:labels", {}).get("user") == "user7"])
    )
    reader.week()
    reader.choose("Only one user", "user7")
    expect(reader.chart("Cost").locator(".figure")).to_have_text(in_dollars(cost))
    expect(reader.page.locator(".tiles")).to_have_count(0)  # nobody knows the labels of what is live
    total = fleet.says("usage", "--group-by", "user", "--user", "user7", "--since", "7d")["total"]
    assert total["cost_usd"] == pytest.approx(cost)


def test_which_tool_fails(fleet: Fleet, reader: Reader) -> None:
    week = fleet.last_week()
    calls = Counter(part["tool_name"] for run in week for part in run["turn"]["messages"][1]["parts"])
    failed = Counter(
        part["tool_name"] for run in week for part in run["turn"]["messages"][1]["parts"] if part["status"] == "error"
    )
    reader.week()
    reader.click(reader.page.locator(".tools summary"))
    rows = reader.page.locator(".tools tbody tr")
    expect(rows).to_have_count(3)
    share = round(failed["refund"] / calls["refund"] * 100)
    assert rows.first.locator("th, td").all_inner_texts()[:4] == [
        "refund", str(calls["refund"]), f"{failed['refund']}, {share} %", "0",
    ]  # fmt: skip
    answer = fleet.says("usage", "tools", "--since", "7d")
    assert {row["tool"]: (row["calls"], row["failed"]) for row in answer["tools"]} == {
        tool: (calls[tool], failed[tool]) for tool in team.TOOLS
    }
    assert answer["turns"] == len(week)
    rows.first.get_by_role("link").click()
    expect(reader.page.get_by_label("Tool", exact=True)).to_have_value("refund")


def test_which_version_of_the_prompt_is_worse(fleet: Fleet, reader: Reader) -> None:
    helped: dict[int, list[bool]] = {0: [], 1: []}
    week = {run["thread_id"] for run in fleet.last_week()}
    for n, good, _ in team.judgements(fleet.runs, fleet.now):
        if fleet.runs[n]["thread_id"] in week:
            helped[n % 2].append(good)
    means = [sum(votes) / len(votes) for votes in helped.values()]
    assert means[1] < means[0]
    reader.week()
    reader.click(reader.page.get_by_role("group", name="Group by").get_by_text("Prompt"))
    legend = reader.chart("Feedback").locator(".legend button")
    expect(legend).to_have_count(2)
    said = sorted(f"{mean:.2f} ({len(votes)})" for mean, votes in zip(means, helped.values(), strict=True))
    assert sorted(legend.locator(".muted").all_inner_texts()) == said
    rows = fleet.says("usage", "--group-by", "prompt", "--feedback", "helpful", "--since", "7d")["rows"]
    assert sorted(row["feedback"]["helpful"]["mean"] for row in rows) == pytest.approx(sorted(means))


def test_what_does_a_branch_of_a_project_cost(fleet: Fleet, reader: Reader) -> None:
    cost = team.cost_of(fleet.last_week(project="project3", branch="branch1"))
    reader.week()
    reader.choose("Only one project", "project3")
    reader.click(reader.page.get_by_role("group", name="Group by").get_by_text("Branch"))
    legend = reader.chart("Cost").locator(".legend button")
    expect(legend.filter(has_text="branch1")).to_have_text(f"branch1{in_dollars(cost)}")
    total = fleet.says("usage", "--project", "project3", "--branch", "branch1", "--since", "7d")["total"]
    assert total["cost_usd"] == pytest.approx(cost)


def test_which_conversations_were_disliked_and_why(fleet: Fleet, reader: Reader) -> None:
    why = {f"chat{n}": comment for n, helped, comment in team.judgements(fleet.runs, fleet.now) if not helped}
    reader.click(reader.page.get_by_role("navigation").get_by_text("Threads"))
    reader.choose("Feedback", "helpful<0.5")
    rows = reader.page.locator(".threads .row")
    expect(rows.first.locator(".judgement")).to_contain_text("helpful: no")
    expect(rows).to_have_count(50)
    for row in rows.all():
        assert row.locator(".comment").inner_text() == why[row.locator(".title").inner_text()]
    page = fleet.says("threads", "list", "--feedback", "helpful=false", "--limit", "1000")["threads"]
    assert {line["external_id"]: line["feedback"][0]["comment"] for line in page} == why
    reader.page.get_by_role("navigation").get_by_text("Threads").click()
    expect(rows.first.locator(".title")).to_have_text(team.SLOW)
    assert rows.locator(".judgement").first.inner_text().startswith("helpful: ")


def test_the_tools_of_a_step_are_numbered_and_those_called_are_marked(fleet: Fleet, opened: Open) -> None:
    page = opened(f"{fleet.url}/#/threads/{fleet.runs[-1]['thread_id']}")
    page.locator(".turn .fold.timeline summary").click()
    page.locator(".fold.timeline > ol > li").first.get_by_role("button", name="Tools").click()
    tools = page.get_by_role("list", name="Tools of this step").get_by_role("listitem")
    expect(tools).to_have_count(3)
    assert [text.split() for text in tools.all_inner_texts()] == [["search", "called"], ["refund"], ["lookup"]]
    expect(tools.first.locator(".chip")).to_have_text("called")


def test_what_is_beyond_its_threshold_and_since_when(fleet: Fleet, reader: Reader) -> None:
    costs = {n: team.cost_of(fleet.last_week(project=f"project{n}")) for n in range(team.PROJECTS)}
    dear = {f"project{n}": cost for n, cost in costs.items() if cost > DEAR}
    assert 0 < len(dear) < team.PROJECTS
    rows = reader.chart("Alerts").locator(".row")
    expect(rows).to_have_count(len(dear) + 1)
    expect(reader.chart("Alerts").locator(".figure")).to_have_text(str(len(dear) + 1))
    for project, cost in dear.items():
        row = rows.filter(has=reader.page.get_by_text(f"project {project}, above", exact=False))
        expect(row.locator(".chip")).to_have_text(f"Cost {in_dollars(cost)}")
    expect(rows.filter(has_text="disliked")).to_contain_text(re.compile("below 0.60 within 7.d"))
    project = min(dear)
    reader.click(rows.filter(has=reader.page.get_by_text(f"project {project}, above", exact=False)))
    expect(reader.page.get_by_label("Project")).to_have_value(project)
    expect(reader.page.locator(".threads .row").first).to_be_visible()
