"""Kafka's jars: those of KAFKA_HOME, else those listed in kafka.jars.

The latter are downloaded once into the cache, and their SHA-256 is checked before each use.
"""

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.pinned_files import Received, are_whole, fetch, keep_whole, parse, repository
from pipeline.settings import tool_home
from turnmill.errors import CallerError

POM: Final = Path(__file__).with_name("pom.xml")
PINS: Final = Path(__file__).with_name("kafka.jars")
MIN_KAFKA: Final = 4

Progress = Callable[[str], None]


def jars(cache: Path, mirror: str | None, progress: Progress, received: Received = lambda _more, _total: None) -> Path:
    """Return the folder of Kafka's jars. The first call without KAFKA_HOME downloads them into the cache.

    `mirror`: see `pinned_files.repository`.

    Raises CallerError if KAFKA_HOME is not a Kafka 4, or if the download fails.
    """
    home = tool_home("KAFKA_HOME")
    if home:
        return _installed(home)
    libs = cache / f"kafka-{hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]}"
    files = parse(PINS.read_text(encoding="utf-8"))
    if not are_whole(files, libs):
        with locked(cache / "kafka.lock"):
            if not are_whole(files, libs):  # another process may have downloaded them meanwhile
                size = sum(file.size for file in files) / 1e6
                progress(f"downloading Kafka (once, {size:.0f} MB) into {cache}")
                fresh = libs.with_suffix(".new")
                if libs.is_dir():
                    shutil.rmtree(fresh, ignore_errors=True)
                    libs.rename(fresh)
                    keep_whole(files, fresh)
                fetch(files, repository(mirror), fresh, received)
                fresh.rename(libs)
    return libs


def _installed(home: Path) -> Path:
    libs = home / "libs"
    versions = [kafka_version(jar.name) for jar in libs.glob("kafka_2.*.jar")]
    newest = max((version for version in versions if version), default=None)
    if newest is None or newest < MIN_KAFKA:
        problem = f"holds Kafka {newest}" if newest else "has no libs/kafka_2.*.jar"
        raise CallerError(
            f"KAFKA_HOME={home} {problem}: point it at an unpacked Apache Kafka {MIN_KAFKA} or newer, "
            "or unset it to have the jars downloaded"
        )
    return libs.absolute()


def kafka_version(jar: str) -> int | None:
    """'kafka_2.13-4.1.2.jar' -> 4; None for any other file, such as its sources."""
    match = re.fullmatch(r"kafka_2\.\d+-(\d+)\.[\d.]+\.jar", jar)
    return int(match[1]) if match else None
