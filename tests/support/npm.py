"""npm packages for tests, from a folder of sources with a lock file, installed in .cache."""

import shutil
import subprocess
from pathlib import Path

from pipeline.devbroker.file_lock import locked
from tests.support.places import ROOT


def installed(sources: Path, name: str) -> Path:
    """-> .cache/NAME with the sources and their packages, installed again where the lock file has changed."""
    npm = shutil.which("npm")
    assert npm is not None, "Node 20 or newer with npm is needed: https://nodejs.org"
    home = ROOT / ".cache" / name
    with locked(home.with_name(f"{home.name}.lock")):
        _install(npm, sources, home)
    return home


def _install(npm: str, sources: Path, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for file in sources.iterdir():
        copied = home / file.name
        if file.is_file() and not (copied.exists() and copied.read_bytes() == file.read_bytes()):
            shutil.copy(file, home)  # not anew: another process may be reading it
    lock, done = sources / "package-lock.json", home / "installed.json"
    if not done.exists() or done.read_bytes() != lock.read_bytes():
        shutil.rmtree(home / "unpacked", ignore_errors=True)  # what a package's program has made
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([*command, "--cache", ROOT / ".cache" / "npm"], cwd=home, check=True)
        shutil.copy(lock, done)
