"""Asking a model again from the thread view: both answers side by side, the key nowhere but in its request."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Request, expect

from pipeline.cli.files.recordings import Stream
from tests.browser import chromium
from tests.browser.conftest import Open
from tests.browser.stage import Stage, publish, serving, settled
from tests.support.upstream import chat_answer

KEY = "sk-of-the-reader-0123456789"
ASKED: dict[str, Any] = {
    "model": "gpt-5",
    "temperature": 1,
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Weather?"}],
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str | None, Any]]]:
    """A provider that answers -> what it was asked: authorization, and body."""
    asked: list[tuple[str | None, Any]] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.headers["authorization"], body))
            found = json.dumps({**chat_answer("It rains."), "model": body["model"]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
        yield asked
        server.shutdown()


@pytest.fixture
def asked_once(running: Stage) -> str:
    """A thread whose answer says what its model was asked -> its id."""
    events = ({"object": "turnmill.request", "request": ASKED}, chat_answer("Sunny."))
    known = {"provider_name": "openai", "model_name": "gpt-5"}
    now = int(time.time() * 1000)
    publish(
        running.settings,
        [Stream("again", "openai-chat", "again-1", "again-first", "weather", events, known, now, "complete")],
    )
    settled(running)
    return "again-1"


def test_a_model_is_asked_again_with_the_readers_key(
    running: Stage, opened: Open, provider: list[tuple[str | None, Any]], asked_once: str
) -> None:
    with serving(running.settings.model_copy(update={"gateway_rerun": True})) as url:
        page = opened(f"{url}/#/threads/{asked_once}")
        sent: list[Request] = []
        page.on("request", lambda one: sent.append(one) if one.method == "POST" else None)
        fold = page.locator("details.fold", has=page.locator("form.again"))
        fold.locator("summary").click()
        fold.get_by_label("Model").fill("gpt-5-mini")
        fold.get_by_label("System prompt").fill("Be exact.")
        fold.get_by_label("Parameters").fill("{not JSON")
        fold.get_by_label("Your key").fill(KEY)
        fold.get_by_role("button", name="Ask again").click()
        expect(fold.get_by_role("status")).to_have_text("Parameters: that is no JSON")
        assert provider == []
        fold.get_by_label("Parameters").fill('{"temperature": 0}')
        fold.get_by_role("button", name="Ask again").click()
        rows = fold.get_by_role("table", name="Both answers").locator("tbody tr")
        expect(rows.filter(has_text="Words")).to_contain_text("Sunny.")
        cells = {row[0]: row[1:] for row in (one.locator("th, td").all_inner_texts() for one in rows.all())}
        assert cells["Words"] == ["Sunny.", "It rains."]
        assert cells["Model"] == ["gpt-5", "gpt-5-mini"]
        assert cells["Status"] == ["complete", "complete"]
        assert cells["Tokens"] == ["5 → 2", "5 → 2"]
        assert {"Tools", "Cost", "Time"} <= set(cells)
        ((authorization, body),) = provider
        assert authorization == f"Bearer {KEY}"
        assert (body["model"], body["temperature"], body["messages"][0]["content"]) == ("gpt-5-mini", 0, "Be exact.")
        assert [KEY in one.url or KEY in (one.post_data or "") for one in sent] == [False]
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert KEY not in kept
        page.evaluate(chromium.axe())
        found = page.evaluate("axe.run({resultTypes: ['violations']})")
        assert [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]] == []
        # The new version is stored, and the page still shows both answers, and goes on where it was.
        expect(fold.get_by_label("Model")).to_be_visible()
        expect(page.get_by_role("group", name="Version 1 of 2")).to_be_visible()
        expect(rows.filter(has_text="Words")).to_contain_text("It rains.")
        expect(fold.get_by_label("Your key")).to_have_value(KEY)
        fold.get_by_role("link", name="To the new version").click()
        expect(page.locator(".turn.agent .text")).to_have_text("It rains.")


def test_where_it_is_not_allowed_nothing_offers_it(running: Stage, opened: Open, asked_once: str) -> None:
    page = opened(f"{running.url}/#/threads/{asked_once}")
    expect(page.locator(".fold.asked")).not_to_have_count(0)
    expect(page.locator("form.again")).to_have_count(0)
