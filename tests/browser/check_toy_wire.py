"""The wire of docs/adding/wire.md on the page: the page's scripts know no wire, the gateway does."""

from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.stage import Stage
from tests.support import toy_wire


def test_its_text_and_tools_are_shown_while_it_streams(running: Stage, opened: Open, tmp_path: Path) -> None:
    program = toy_wire.program(tmp_path / "program")
    lines = toy_wire.STREAM.encode().splitlines(keepends=True)
    with toy_wire.gateway(running.settings, program) as url:
        page = opened(f"{url}/")
        run = f"{url}/v1/threads/toys/runs/r1/stream?dialect=toy"
        httpx.post(f"{run}&end=open", content=b"".join(lines[:3]), trust_env=False).raise_for_status()
        page.locator(".runs .row", has_text="Let me look.").click()
        expect(page.locator(".turn.open .text")).to_contain_text("Let me look.")
        expect(page.locator(".turn.open .calling")).to_contain_text("get_weather")
        httpx.post(f"{run}&from_seq=3", content=b"".join(lines[3:]), trust_env=False).raise_for_status()
        expect(page.locator(".turn.open .text")).to_contain_text("72F.")
