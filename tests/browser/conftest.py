"""A stage with something on it, and pages that watch what they do."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pydantic import SecretStr

from tests.browser import chromium, demo_fleet, forks, showcase
from tests.browser.stage import BROKEN, TROUBLE, Stage, publish, recordings, serving, settled, stage
from tests.browser.watched import PATIENCE, Watched, watched
from tests.support.gateways import Tokens

Open = Callable[..., Page]
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        one = chromium.launched(playwright)
        yield one
        one.close()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A broker, a worker, a gateway, and runs of the last hours, those that failed among them."""
    with stage(tmp_path_factory.mktemp("stage")) as one:
        publish(one.settings, [*demo_fleet.history(4), *showcase.runs(), *forks.runs(), *recordings(TROUBLE, BROKEN)])
        settled(one)
        yield one


@pytest.fixture(scope="session")
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture(scope="session")
def guarded(running: Stage, tokens: Tokens) -> Iterator[str]:
    """A gateway in front of the same pipeline that asks for tokens."""
    with serving(running.settings.model_copy(update={"gateway_tokens": SecretStr(tokens.setting)})) as url:
        yield url


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """`opened(url, **options of the context)` -> a page. In the end: did one of them do what it must not?"""
    pages: list[Watched] = []

    def open_page(url: str, **options: object) -> Page:
        pages.append(watched(browser, url, options))
        return pages[-1].page

    yield open_page
    faults = [fault for one in pages for fault in one.faults()]
    for one in pages:
        one.page.context.close()
    assert not faults
