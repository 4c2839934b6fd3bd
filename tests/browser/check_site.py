"""The documentation as `make site` builds it: pages, search and references work in a browser, and ask no other host."""

import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import turnmill
from tests.browser import chromium
from tests.browser.conftest import Open
from tests.support.places import ROOT

PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1440, "height": 900}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the built site."""
    subprocess.run(["make", "site"], cwd=ROOT, check=True)
    handler = functools.partial(Quiet, directory=str(ROOT / "dist" / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def violations(page: Page) -> list[str]:
    page.evaluate(chromium.axe())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [f"{one['id']}: {node['target']}" for one in found["violations"] for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
def test_first_page(opened: Open, site: str, tmp_path: Path, size: dict[str, int], scheme: str) -> None:
    page = opened(f"{site}/docs/site/index.html", viewport=size, color_scheme=scheme)
    expect(page.get_by_role("heading", name="Turnmill", level=1)).to_be_visible()
    picture = page.get_by_role("img", name="The dashboard")
    assert picture.evaluate("image => image.naturalWidth") > 1000
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.screenshot(path=tmp_path / "first.png")
    assert violations(page) == []


def test_search(opened: Open, site: str) -> None:
    page = opened(f"{site}/docs/site/index.html")
    page.get_by_placeholder("Search").first.fill("dead letter")
    page.keyboard.press("Enter")
    expect(page.locator("ul.search li").first).to_be_visible()
    expect(page.locator("ul.search")).to_contain_text("Glossary")


def test_python(opened: Open, site: str) -> None:
    page = opened(f"{site}/docs/site/python.html")
    documented = set(page.locator("dt[id]").evaluate_all("all => all.map(one => one.id)"))
    assert {f"turnmill.{name}" for name in turnmill.__all__} <= documented


def test_http(opened: Open, site: str) -> None:
    page = opened(f"{site}/docs/site/http.html", viewport=WIDE)
    expect(page.get_by_text("/v1/threads/{thread_id}").first).to_be_visible()


def test_kafka(opened: Open, site: str) -> None:
    page = opened(f"{site}/docs/site/kafka.html", viewport=WIDE)
    expect(page.get_by_text("turnmill.dead-letters").first).to_be_visible()
