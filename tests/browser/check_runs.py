"""Runs that hang, and threads that wait for somebody, are told on the first page."""

from typing import Any

from playwright.sync_api import expect

from pipeline.cli.files.recordings import Stream
from tests.browser.conftest import Open
from tests.browser.stage import Stage, publish, settled, streaming
from tests.support.gateways import talk

AGENT = "Pays late"


def run(name: str, events: list[dict[str, Any]]) -> Stream:
    return Stream(
        "runs",
        "vercel-ai",
        f"thread {name}",
        f"run {name}",
        AGENT,
        tuple(events),
        {"agent_name": AGENT},
        end="complete",
    )


def test_a_run_that_hangs_and_an_approval_that_waits(running: Stage, opened: Open) -> None:
    asks = [
        *talk(1)[:2],
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "pay", "input": {"sum": 3}},
        {"type": "tool-approval-request", "toolCallId": "c1", "approvalId": "a1"},
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    publish(running.settings, [*(run(str(n), talk(2)) for n in range(20)), run("asks", asks)])
    settled(running)
    page = opened(f"{running.url}/")
    waiting = page.locator("section[aria-labelledby=waiting] .row", has_text=AGENT).first  # other tests have some, too
    expect(waiting).to_contain_text("approval")
    expect(waiting).to_contain_text('pay {"sum":3}')
    hanging = page.locator("section[aria-labelledby=silent-runs]")
    expect(hanging).to_be_hidden()
    with streaming(running.settings, run("hangs", talk(2))):
        expect(hanging.locator(".row")).to_contain_text("last: text-delta")
        expect(page.locator(".runs .row", has_text=AGENT).locator(".pulse.silent")).to_have_count(1)
    expect(hanging).to_be_hidden()
    waiting.click()
    expect(page.locator("main")).to_contain_text("pay")
