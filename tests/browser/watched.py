"""A page of which is written down whatever it must not do: ask another host, run a stored text, fail."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page

DESKTOP = {"width": 1280, "height": 900}
PATIENCE = 180_000  # ms: machines may be slow
POLICY = """
globalThis.refused = [];
document.addEventListener("securitypolicyviolation", (event) => {
  globalThis.refused.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
});
"""


@dataclass(slots=True)
class Watched:
    """A page, and what was seen."""

    page: Page
    seen: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """-> all of them; what the page's policy refused is one, too."""
        return [*self.seen, *(f"refused by the policy: {one}" for one in self.page.evaluate("globalThis.refused"))]


def watched(browser: Browser, url: str, options: Mapping[str, object]) -> Watched:
    """-> a page in a browser context of its own, at `url`."""
    given = {"viewport": DESKTOP, "locale": "en-GB", "timezone_id": "Europe/Lisbon", **options}
    page = browser.new_context(**cast("dict[str, Any]", given)).new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(POLICY)
    one = Watched(page)
    host = urlsplit(url).netloc
    page.on("request", lambda request: _host(one, request.url, host))
    page.on("pageerror", lambda error: one.seen.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (one.seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("popup", lambda popup: one.seen.append(f"popup: {popup.url}"))
    page.goto(url)
    return one


def _host(one: Watched, asked: str, host: str) -> None:
    parts = urlsplit(asked)
    if parts.scheme not in {"blob", "data"} and parts.netloc != host:
        one.seen.append(f"asked another host: {asked}")
