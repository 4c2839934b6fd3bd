"""The first minute: one's own sessions are on the screen, from nothing but `turnmill dev --mine`."""

import time
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.support.dev import Dev
from tests.support.places import CACHE
from tests.support.sessions import PIXEL, Claude, write

WITHIN = 60.0  # seconds, without the download of Kafka


def test_ones_own_thread_is_on_the_screen_within_a_minute(tmp_path: Path, opened: Open) -> None:
    claude = Claude("one")
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    claude.ask([{"type": "text", "text": "Why is the oven cold?"}, picture])
    thought = {"type": "thinking", "thinking": "Somebody may have turned it off", "signature": "s"}
    claude.say(
        thought, {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "oven --status"}}, stop=""
    )
    claude.result("t1", "off")
    claude.say("It is **off**.")
    claude.lines.append({"type": "ai-title", "aiTitle": "The cold oven", "sessionId": claude.session})
    claude.write(tmp_path)
    child = claude.agent("a1")
    child.ask("Look into the kitchen")
    child.say("There it is.")
    write(child.agent_file(tmp_path), child.lines)
    variables = {
        "CLAUDE_CONFIG_DIR": str(tmp_path),
        "CODEX_HOME": str(tmp_path),
        "GEMINI_CLI_HOME": str(tmp_path),
        "COPILOT_HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "TURNMILL_CACHE": str(CACHE),
    }
    dev = Dev(tmp_path / "home", **variables)
    began = time.monotonic()
    with dev.running("--mine"):
        page = opened(f"http://127.0.0.1:{dev.port}/#/threads")
        page.get_by_text("The cold oven").click(timeout=WITHIN * 1000)
        expect(page.locator(".turn.agent:not(.open)")).to_contain_text("It is off.")
        took = time.monotonic() - began
        expect(page.get_by_role("heading", level=1)).to_contain_text("The cold oven")
        expect(page.locator(".turn.user")).to_contain_text("Why is the oven cold?")
        expect(page.locator(".fold.tool")).to_contain_text("Bash")
        page.locator(".side .tree").first.get_by_text("Look into the kitchen").click()
        expect(page.locator(".turn.agent:not(.open)")).to_contain_text("There it is.")
    assert took < WITHIN


def test_a_kill_and_its_recovery_are_told(tmp_path: Path, opened: Open) -> None:
    nobody = {
        "CLAUDE_CONFIG_DIR": str(tmp_path),
        "CODEX_HOME": str(tmp_path),
        "GEMINI_CLI_HOME": str(tmp_path),
        "COPILOT_HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "TURNMILL_CACHE": str(CACHE),
    }
    dev = Dev(tmp_path / "home", **nobody)
    with dev.running("--fleet"):
        dev.until(lambda: dev.ask("/v1/status")["store"]["turns"])
        page = opened(f"http://127.0.0.1:{dev.port}/#/pipeline")
        card = page.get_by_role("region", name="Kill the worker")
        card.get_by_role("button").click()
        expect(card.get_by_role("button")).to_be_disabled()
        told = card.get_by_role("log")
        expect(told).to_contain_text("Killed a worker (SIGKILL)")
        expect(told).to_contain_text("runs on the topic =")
        expect(card.get_by_role("button")).to_be_enabled()
        expect(told).not_to_contain_text("did not recover")
