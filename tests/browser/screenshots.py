"""`python -m tests.browser.screenshots`: the pictures of docs/, made of a pipeline that runs; a few minutes."""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from pipeline.cli.files.recordings import Envelopes, Stream
from tests.browser import chromium, demo_fleet, forks, showcase
from tests.browser.stage import (
    BROKEN,
    FLEET,
    ROOT,
    TROUBLE,
    WIRES,
    Stage,
    publish,
    recordings,
    settled,
    stage,
    streaming,
)
from tests.browser.watched import PATIENCE
from turnmill.identity import thread_uuid

IMAGES: Final = ROOT / "docs" / "images"
LARGEST: Final = 250_000  # bytes of a picture
SLICES: Final = 40  # in which the past is published, so that live figures have something to show
BETWEEN: Final = 3.0  # seconds
FORKED: Final = thread_uuid(forks.FORKED)[0]
THREAD: Final = thread_uuid(showcase.THREAD, "acme")[0]
OPEN_RUNS: Final = ("trip-lisbon-1", "tickets-refund-1", "contract-notice-1", "research-tides-1", "revenue-q3-2")
POISON: Final = tuple(
    Envelopes("poison", "poison", 1, 1, ((0, value),))
    for value in (b"\xff\xfe no JSON at all", b'{"v": 9, "thread_id": "of the future"}', b'["no", "envelope"]')
)
DESKTOP: Final = (1280, 800)
PHONE: Final = (390, 844)
OPEN: Final = "document.querySelector('details').open = true"
TAKE_STOCK: Final = f"{OPEN}; document.querySelector('[aria-labelledby=ledger] > header > button').click()"
STEPS: Final = (
    "const one = document.querySelector('.fold.steps'); one.open = true; one.scrollIntoView({block: 'center'})"
)
WAITING: Final = "document.querySelector('[aria-labelledby=waiting]').scrollIntoView({block: 'center'})"
UNFOLD: Final = "for (const n of [1, 2]) document.querySelectorAll('.fold')[n].open = true"


@dataclass(frozen=True, slots=True)
class Picture:
    """A place of the page, when `shown` is there and after `script`; `full`: as long as it is."""

    name: str
    place: str
    shown: str
    size: tuple[int, int] = DESKTOP
    scheme: str = "light"
    full: bool = False
    script: str | None = None
    then: str = "details[open]"  # what the script makes appear


PICTURES: Final = (
    Picture("dead-letters", "#/dead-letters", ".letter >> nth=4", (1280, 620), script=OPEN),
    Picture("overview", "#/?range=24h&by=model", ".chart[data-state=drawn] >> nth=5", (1280, 980)),
    Picture("overview-dark", "#/", ".runs .row >> nth=3", (1280, 1530), "dark", full=True),
    Picture("threads", "#/threads", ".threads .row >> nth=9"),
    Picture("search", "#/search?q=pool", ".hits .row >> nth=1", (1280, 560)),
    Picture("thread", f"#/threads/{THREAD}", ".turn.agent", full=True),
    Picture("tool-call-dark", f"#/threads/{THREAD}", ".turn.agent", (1280, 960), "dark", script=UNFOLD),
    Picture("branches", f"#/threads/{FORKED}", ".versions >> nth=1", (1280, 700)),
    Picture("steps-dark", f"#/threads/{THREAD}", ".turn.agent", (1280, 700), "dark", script=STEPS),
    Picture("attention", "#/", "[aria-labelledby=waiting] .row", (1280, 760), script=WAITING, then=".attention"),
    Picture("pipeline", "#/pipeline", "details.group", (1280, 760), script=TAKE_STOCK, then=".ledger"),
    Picture("phone", "#/?range=24h&by=model", ".chart[data-state=drawn] >> nth=5", PHONE),
    Picture("phone-thread", f"#/threads/{THREAD}", ".turn.agent", PHONE, "dark"),
)  # fmt: skip


@contextmanager
def fleet(home: Path) -> Iterator[Stage]:
    """The pipeline with a day of a fleet in it; some of its runs are open, and others come and go."""
    with stage(home) as running, ExitStack() as going_on:
        publish(running.settings, [*showcase.runs(), *forks.forked()])
        past = demo_fleet.history(24, busy=4)
        random.Random(3).shuffle(past)
        for number in range(SLICES):
            publish(running.settings, past[number::SLICES])
            time.sleep(BETWEEN)
        settled(running)
        for run in recordings(FLEET, WIRES):
            if isinstance(run, Stream) and run.run_id in OPEN_RUNS:
                now = replace(run, thread_id=f"{run.thread_id}-now", run_id=f"{run.run_id}-now")
                going_on.enter_context(streaming(running.settings, now))
        going_on.enter_context(traffic(running))
        time.sleep(20)
        publish(running.settings, [*recordings(TROUBLE, BROKEN), *POISON])
        yield running


@contextmanager
def traffic(on: Stage) -> Iterator[None]:
    """Runs that begin now, one after the other, as long as the block lasts."""
    done = threading.Event()

    def work() -> None:
        for number in count(100_000, 10):
            if done.wait(0.5):
                return
            now = int(time.time() * 1000)
            publish(on.settings, demo_fleet.copies(number, number, [now] * 3), speed=3.0)

    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(work)
        try:
            yield
        finally:
            done.set()
            going.result()


def photograph(browser: Browser, url: str, picture: Picture) -> Path:
    """-> the file."""
    width, height = picture.size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.scheme == "dark" else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Lisbon",
        device_scale_factor=2 if picture.size == PHONE else 1,
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}/{picture.place}")
    page.locator(picture.shown).first.wait_for()
    _settled(page)
    if picture.script is not None:
        page.evaluate(picture.script)
        page.locator(picture.then).first.wait_for()
    file = IMAGES / f"{picture.name}.png"
    page.screenshot(path=file, full_page=picture.full)
    context.close()
    size = file.stat().st_size
    sys.stdout.write(f"{file.relative_to(ROOT)}: {size / 1000:,.0f} kB\n")
    assert size < LARGEST, f"{file.name} is too large for a document"
    return file


def _settled(page: Page) -> None:
    """Wait for the first figures, and until the status says that they are live; some views have none."""
    page.locator("#connection[data-state=live]").or_(page.locator(".letters, .hits")).first.wait_for()
    page.wait_for_timeout(4000)


def main() -> None:
    """All pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, fleet(Path(home)) as running, sync_playwright() as playwright:
        browser = chromium.launched(playwright)
        for picture in PICTURES:
            photograph(browser, running.url, picture)
        browser.close()


if __name__ == "__main__":
    main()
