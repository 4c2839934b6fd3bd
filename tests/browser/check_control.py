"""Runs are stopped, steered and answered on the dashboard, which shows what became of each command and no more."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Route, expect

from tests.browser.check_runs import run
from tests.browser.conftest import Open
from tests.browser.stage import Stage, publish, settled
from tests.support.gateways import talk
from turnmill import PublishedRun, Publisher, RunStopped
from turnmill.settings import ClientSettings


async def _talks_on(run: PublishedRun) -> None:
    """A run that goes on until it is stopped, and takes up messages."""

    async def events() -> Any:
        for event in talk(1)[:3]:
            yield event
        while True:
            yield {"type": "text-delta", "id": "t", "delta": "word "}
            await run.steered()
            await asyncio.sleep(0.1)

    async with run:
        async for _ in run.tee(events()):
            pass


@contextmanager
def program(stage: Stage, ended: list[str]) -> Iterator[None]:
    of = stage.settings
    settings = ClientSettings(brokers=of.brokers, topic_prefix=of.topic_prefix, home=of.home / "program")

    async def work() -> None:
        async with Publisher(settings) as publisher:
            try:
                await _talks_on(
                    publisher.run(
                        thread_id="commanded",
                        agent_id="talks",
                        dialect="vercel-ai",
                        run_id="commanded-1",
                        info={"agent_name": "Talks on"},
                        steers=True,
                    )
                )
            except RunStopped as stopped:
                ended.append(stopped.by)

    thread = threading.Thread(target=asyncio.run, args=[work()], daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)


def test_a_run_is_steered_and_stopped(running: Stage, opened: Open) -> None:
    ended: list[str] = []
    with program(running, ended):
        page = opened(f"{running.url}/")
        row = page.locator(".runs li", has_text="Talks on")
        expect(row.get_by_role("button", name="Stop the run commanded-1")).to_be_visible()
        row.locator("a.row").click()
        card = page.locator(".turn.open")
        card.get_by_role("textbox", name="Message to the run commanded-1").fill("And in Oslo?")
        card.get_by_role("button", name="Send").click()
        expect(card.locator("form [role=status]")).to_have_text("heard")
        card.get_by_role("button", name="Stop the run commanded-1").click()
        expect(card.locator("span.command [role=status]")).to_have_text("ended")
    assert ended == ["anonymous"]
    stored = page.locator(".turns .turn.agent")
    expect(stored).to_contain_text("stopped by anonymous")
    expect(stored).to_contain_text("And in Oslo?")


def test_an_approval_is_answered(running: Stage, opened: Open) -> None:
    asks = [
        *talk(1)[:2],
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "pay", "input": {"sum": 3}},
        {"type": "tool-approval-request", "toolCallId": "c1", "approvalId": "a1"},
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    publish(running.settings, [run("approves", asks)])
    settled(running)
    page = opened(f"{running.url}/#/threads/thread%20approves")
    question = page.locator(".question", has_text="pay")
    expect(question).to_contain_text('{"sum":3}')
    question.get_by_role("textbox", name="Reason").fill("go on")
    question.get_by_role("button", name="Approve").click()
    expect(question.locator("[role=status]")).to_have_text("requested")
    question.get_by_role("button", name="Deny").click()
    expect(question.locator("[role=status]")).to_contain_text("refused: answered already by anonymous")


def test_the_question_of_a_budget_is_answered_on_the_first_page(running: Stage, opened: Open) -> None:
    asked = {"answer_id": "budget_1", "id": "budget_1", "kind": "approval", "message": "b: 100 of 100 tokens are used."}
    row = {"thread_id": "t", "external_id": "budget:b", "tenant": "acme", "turn_id": "", "run_id": "", "since": 0}
    row |= {"agent_id": "", "agent_name": None, "asked": [{**asked, "tool_name": None, "args": None}]}
    given: list[tuple[str, str | None]] = []

    def answers(route: Route) -> None:
        given.append((route.request.url.removeprefix(running.url), route.request.post_data))
        route.fulfill(status=202, json={"command_id": "c"})

    page = opened(f"{running.url}/")
    page.route("**/v1/runs?status=waiting*", lambda route: route.fulfill(json={"runs": [row]}))
    page.route("**/answers/budget_1*", answers)
    page.route("**/v1/commands/c", lambda route: route.fulfill(json={"state": "acknowledged", "reason": None}))
    question = page.locator(".attention .question")
    expect(question).to_contain_text("100 of 100 tokens", timeout=20_000)
    question.get_by_role("button", name="Approve").click()
    expect(question.locator("[role=status]")).to_have_text("heard")
    assert given == [("/v1/threads/budget%3Ab/answers/budget_1?tenant=acme", '{"value":{"approved":true}}')]
