"""What happens is on the page within two seconds: measured and printed; slow machines are no failure."""

import sys
import time
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from pipeline.cli.files.recordings import Envelopes, Stream
from tests.browser.conftest import Open
from tests.browser.stage import Stage, publish, streaming
from tests.support.gateways import talk, words
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import VERSION, encode

ROUNDS = 5


def run(name: str, events: int = 1) -> Stream:
    said = [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}, *words(events)]
    usage = {"type": "data-sys-usage", "data": {"input_tokens": 700, "output_tokens": 300, "total_tokens": 1000}}
    end = [{"type": "text-end", "id": "t"}, usage, {"type": "finish-step"}, {"type": "finish"}]
    info: dict[str, Any] = {"agent_name": name, "model_name": "gpt-5", "provider_name": "openai"}
    return Stream("live", "vercel-ai", name, f"run of {name}", name, (*said, *end), info, end="complete")


def number(page: Page, tile: str) -> int:
    return int(page.locator(f"#tile-{tile}").inner_text().replace(",", ""))


def report(capsys: pytest.CaptureFixture[str], what: str, seconds: list[float]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{what}: {', '.join(f'{one:.2f}' for one in sorted(seconds))} s\n")


def test_a_run_is_on_the_page_while_it_streams(
    running: Stage, opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    page = opened(f"{running.url}/")
    expect(page.locator("#connection")).to_have_text("Live")
    seconds = []
    for turn in range(ROUNDS):
        name = f"streaming {turn}"
        row = page.locator(".runs .row", has_text=name)
        with streaming(running.settings, run(name)) as began:
            expect(row).to_contain_text("word ")
            seconds.append(time.monotonic() - began)
        expect(row).to_have_count(0)  # its turn is finished
    report(capsys, "from the events of a run to its text on the page", seconds)


def test_a_turn_is_counted_when_it_is_finished(
    running: Stage, opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    page = opened(f"{running.url}/?fresh#/?agent=counted")
    expect(page.locator("#tile-turns")).to_have_text("0")
    seconds = []
    for turn in range(ROUNDS):
        publish(running.settings, [replace(run("counted"), run_id=f"counted {turn}")])
        began = time.monotonic()  # the broker has it
        page.wait_for_function(
            "n => document.querySelector('#tile-turns + dd').textContent.startsWith(`${n} in`)", arg=turn + 1
        )
        seconds.append(time.monotonic() - began)
    report(capsys, "from a confirmed end of a run to the count of turns on the page", seconds)
    assert number(page, "errors") == 0
    expect(page.locator("#tile-cost")).not_to_have_text("$0.00")
    expect(page.locator("#tile-tokens + dd")).to_have_text("5,000 in 15 min")


def test_an_open_run_is_read_in_its_thread_and_becomes_a_turn(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/")
    with streaming(running.settings, run("reader", 400)):
        page.locator(".runs .row", has_text="reader").click()
        expect(page.locator(".turn.open")).to_contain_text("word 399")
    expect(page.locator(".turn.agent:not(.open)")).to_contain_text("word 399")
    expect(page.locator(".turn.open")).to_have_count(0)


def unended(first: int, events: list[dict[str, Any]]) -> Envelopes:
    """Events of a run whose publisher never says `end`; `first` is the number of the first."""
    thread = thread_uuid("never-ended")[0]
    now = now_ms()
    record = {"v": VERSION, "thread_id": thread, "run_id": "never-ended-1", "agent_id": "forgets", "seq": first}
    value = encode({**record, "ts": now, "dialect": "vercel-ai", "events": events})
    return Envelopes("live", thread, 1, len(events), ((now, value),))


def test_a_run_that_the_worker_closes_becomes_a_turn_and_has_nothing_to_stop(running: Stage, opened: Open) -> None:
    events = talk(5)
    publish(running.settings, [unended(0, events[:-3])])
    page = opened(f"{running.url}/#/threads/never-ended?live=1")
    stop = page.get_by_role("button", name="Stop the run never-ended-1")
    expect(stop).to_be_visible()
    publish(running.settings, [unended(len(events) - 3, events[-3:])])
    expect(page.locator(".turns .turn.agent")).to_contain_text("word 4")
    expect(stop).to_have_count(0)
    page.reload()
    expect(page.locator(".turns .turn.agent")).to_contain_text("word 4")
    expect(page.locator(".turn.open")).to_have_count(0)
    expect(stop).to_have_count(0)


def test_lag_and_ledger(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/pipeline")
    for role in ("assemble", "metrics", "store"):
        expect(page.locator(f"summary[data-role={role}]")).to_contain_text("record")
    expect(page.locator("summary[data-role=store] .lag")).to_have_attribute("data-lag", "0")
    page.get_by_role("button", name="Take stock").click()
    expect(page.get_by_text("Every run is accounted for.")).to_be_visible()
    seen, stored, dead, still = (
        int(text.replace(",", "")) for text in page.locator(".ledger .term b").all_inner_texts()
    )
    assert seen == stored + dead + still
    assert stored > 0
