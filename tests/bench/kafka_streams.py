"""The Kafka Streams program: Maven loads its jars and javac compiles its class, each once, into the cache."""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.java import java
from pipeline.settings import Settings
from tests.support.maven_jars import maven_jars
from turnmill.errors import CallerError

JAVA: Final = Path(__file__).with_name("java")


def command(settings: Settings) -> list[str]:
    """The command that runs it, without arguments. Raises CallerError where a tool is missing or javac fails."""
    jars = maven_jars(settings.cache_folder, JAVA / "pom.xml", "kafka-streams")
    source = JAVA / "Assemble.java"
    classes = jars.with_name(f"{jars.name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}")
    path = f"{classes}:{jars}/*"
    with locked(settings.cache_folder / "kafka-streams.lock"):
        if not classes.is_dir():
            _compile(source, path, classes)
    return [str(java()), "-cp", path, "Assemble"]


def missing() -> str | None:
    """The tools that are missing; None where all are installed."""
    lacking = [name for name in ("mvn", "javac") if not shutil.which(name)]
    return f"{' and '.join(lacking)} in PATH (Debian: maven, openjdk-17-jdk-headless)" if lacking else None


def _compile(source: Path, path: str, classes: Path) -> None:
    draft = classes.with_suffix(".new")
    done = subprocess.run(
        ["javac", "-cp", path, "-d", str(draft), str(source)],  # whichever JDK is there
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CallerError(f"javac could not compile {source.name}:\n{done.stderr[-2000:]}")
    draft.rename(classes)
