"""A headless Chromium and axe-core, from the npm packages that tests/browser/node locks; kept in .cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, Playwright

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).with_name("node")
HOME = ROOT / ".cache" / "threadmill" / "browser"


@cache
def installed() -> Path:
    """The folder with the packages. They are installed again where the lock file has changed."""
    npm = shutil.which("npm")
    assert npm is not None, "Node 20 or newer with npm is needed: https://nodejs.org"
    HOME.mkdir(parents=True, exist_ok=True)
    lock, done = SOURCES / "package-lock.json", HOME / "installed.json"
    for file in SOURCES.iterdir():
        shutil.copy(file, HOME / file.name)
    if not done.exists() or done.read_bytes() != lock.read_bytes():
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([*command, "--cache", ROOT / ".cache" / "npm"], cwd=HOME, check=True)
        shutil.rmtree(HOME / "unpacked", ignore_errors=True)
        shutil.copy(lock, done)
    return HOME


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
            "FONTCONFIG_FILE": str(HOME / "fonts.conf"),
            "XDG_CACHE_HOME": str(HOME / "unpacked"),
            "LANGUAGE": "en_US",
            "LC_ALL": "en_US.UTF-8",
        },
    )


def axe() -> str:
    """The source of axe-core, which looks for what people with disabilities can't use."""
    return (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text()
