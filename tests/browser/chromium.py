"""A headless Chromium and axe-core, from the npm packages that tests/browser/node locks; kept in .cache."""

import os
import subprocess
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, Playwright

from tests.support import npm

SOURCES = Path(__file__).with_name("node")


@cache
def installed() -> Path:
    """The folder with the packages."""
    return npm.installed(SOURCES, "turnmill/browser")


@cache
def executable() -> Path:
    """The browser's program."""
    folder = installed() / "unpacked"
    folder.mkdir(exist_ok=True)
    variables = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(
        ["node", "chromium.mjs"], cwd=installed(), env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def launched(playwright: Playwright) -> Browser:
    """The browser, with the fonts of its package and one language: pages look alike on every machine."""
    return playwright.chromium.launch(
        executable_path=executable(),
        args=["--no-sandbox", "--font-render-hinting=none"],
        env={
            **os.environ,
            "FONTCONFIG_FILE": str(installed() / "fonts.conf"),
            "XDG_CACHE_HOME": str(installed() / "unpacked"),
            "LANGUAGE": "en_US",
            "LC_ALL": "en_US.UTF-8",
        },
    )


def axe() -> str:
    """The source of axe-core, which looks for what people with disabilities can't use."""
    return (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text()
