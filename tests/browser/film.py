"""`python -m tests.browser.film`: the moving picture of README, of `turnmill dev --fleet`; two minutes."""

import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser import chromium
from tests.browser.screenshots import IMAGES
from tests.browser.watched import PATIENCE
from tests.support.dev import Dev
from tests.support.places import CACHE, ROOT

FILE: Final = IMAGES / "dev.webp"
SIZE: Final = (1120, 700)
SHOWN: Final = (960, 600)
EACH_MS: Final = 400  # a frame is shown as long as it took to come
LARGEST: Final = 2_500_000  # bytes


class Film:
    """The frames of a page, and how long each is shown (ms)."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frames: list[Image.Image] = []
        self._shown: list[int] = []

    def take(self, seconds: float) -> None:
        """Film what the page shows in these seconds."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            picture = Image.open(BytesIO(self._page.screenshot(type="png")))
            self._frames.append(picture.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS))
            self._page.wait_for_timeout(max(0.0, EACH_MS - (time.monotonic() - now) * 1000))
            self._shown.append(round((time.monotonic() - now) * 1000))

    def save(self, file: Path) -> None:
        """Write an animated WebP that begins again at its end."""
        first, *others = self._frames
        first.save(file, save_all=True, append_images=others, duration=self._shown, loop=0, quality=55, method=4)


def play(page: Page, film: Film) -> None:
    """Figures that move, a worker that is killed and what becomes of it, and a conversation."""
    page.locator(".chart[data-state=drawn]").first.wait_for()
    expect(page.get_by_text("being assembled now")).to_be_visible()
    expect(page.get_by_text("not known just now")).to_have_count(0)
    film.take(7)
    page.get_by_role("link", name="Pipeline").click()
    card = page.get_by_role("region", name="Kill the worker")
    card.scroll_into_view_if_needed()
    film.take(2)
    card.get_by_role("button").click()
    while card.get_by_role("button").is_disabled():
        film.take(1)
    expect(card.get_by_role("log")).to_contain_text("runs on the topic =")
    film.take(3)
    page.get_by_role("link", name="Threads").click()
    page.locator(".threads a.row").first.wait_for()
    film.take(2)
    page.locator(".threads a.row").filter(has_not_text="interrupted").first.click()
    page.locator(".turn.agent").first.wait_for()
    film.take(3)


def main() -> None:
    """Make the film, of a pipeline that begins with nothing."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        dev = Dev(Path(folder) / "home", CLAUDE_CONFIG_DIR=folder, CODEX_HOME=folder, TURNMILL_CACHE=str(CACHE))
        with dev.running("--fleet"):
            dev.until(lambda: dev.ask("/v1/status")["store"]["turns"] > 20)
            browser = chromium.launched(playwright)
            width, height = SIZE
            page = browser.new_page(viewport={"width": width, "height": height}, locale="en-GB", color_scheme="light")
            page.set_default_timeout(PATIENCE)
            expect.set_options(timeout=PATIENCE)
            page.goto(f"http://127.0.0.1:{dev.port}/")
            film = Film(page)
            play(page, film)
            browser.close()
    film.save(FILE)
    size = FILE.stat().st_size
    sys.stdout.write(f"{FILE.relative_to(ROOT)}: {size / 1000:,.0f} kB\n")
    assert size < LARGEST, "it is too large for a document"


if __name__ == "__main__":
    main()
