"""What the development broker runs on: a Java, and Kafka's jars from KAFKA_HOME or, once, from Maven."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from pipeline.devbroker.file_lock import locked
from pipeline.errors import CallerError
from pipeline.settings import Settings, tool_home

POM = Path(__file__).with_name("pom.xml")
OLDEST_JAVA = 17
OLDEST_KAFKA = 4
INSTALL_JAVA = f"install Java {OLDEST_JAVA} or newer (Debian: openjdk-17-jre-headless, macOS: brew install openjdk@17)"

Progress = Callable[[str], None]


def java() -> Path:
    """The Java of JAVA_HOME, else of PATH. Raises CallerError where there is none, or it is too old."""
    home = tool_home("JAVA_HOME")
    found = shutil.which("java", path=str(home / "bin")) if home else shutil.which("java")
    if not found:
        where = f"in {home / 'bin'} (JAVA_HOME)" if home else "in PATH"
        raise CallerError(f"the development broker needs Java, and there is no java {where}: {INSTALL_JAVA}")
    try:
        run = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise CallerError(f"{found} does not run ({error}): {INSTALL_JAVA}") from error
    version = java_version(run.stderr + run.stdout)
    if version is None or version < OLDEST_JAVA:
        raise CallerError(f"{found} is Java {version or 'of an unknown version'}, too old for Kafka: {INSTALL_JAVA}")
    return Path(found)


def java_version(text: str) -> int | None:
    """What `java -version` prints -> the major version; 8 for "1.8.0_402"."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def jars(settings: Settings, progress: Progress) -> Path:
    """The folder of Kafka's jars. The first call without KAFKA_HOME downloads them into the cache.

    Raises CallerError for a KAFKA_HOME that is no Kafka 4, for a missing Maven, and for a failed download.
    """
    home = tool_home("KAFKA_HOME")
    if home:
        return _installed(home)
    return maven_jars(settings, POM, "kafka", "Kafka's jars (once, about 45 MB)", progress)


def maven_jars(settings: Settings, pom: Path, name: str, what: str, progress: Progress = lambda _: None) -> Path:
    """The folder of a pom's jars in the cache, `name` and the pom's fingerprint. Raises CallerError."""
    cache = settings.cache.absolute()
    libs = cache / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not libs.is_dir():
        with locked(cache / f"{name}.lock"):
            if not libs.is_dir():  # another process may have been first
                progress(f"downloading {what}")
                _download(cache, pom, libs)
                progress(f"{what.partition(' (')[0]} are in the cache")
    return libs


def _installed(home: Path) -> Path:
    libs = home / "libs"
    versions = [kafka_version(jar.name) for jar in libs.glob("kafka_2.*.jar")]
    newest = max((version for version in versions if version), default=None)
    if newest is None or newest < OLDEST_KAFKA:
        found = f"holds Kafka {newest}" if newest else "has no libs/kafka_2.*.jar"
        raise CallerError(
            f"KAFKA_HOME={home} {found}: point it at an unpacked Apache Kafka {OLDEST_KAFKA} or newer, "
            "or unset it to have the jars downloaded by Maven"
        )
    return libs.absolute()


def kafka_version(jar: str) -> int | None:
    """'kafka_2.13-4.1.2.jar' -> 4; None for any other file, such as its sources."""
    match = re.fullmatch(r"kafka_2\.\d+-(\d+)\.[\d.]+\.jar", jar)
    return int(match[1]) if match else None


def _download(cache: Path, pom: Path, libs: Path) -> None:
    maven = shutil.which("mvn")
    if not maven:
        raise CallerError(
            "Kafka's jars are not there yet, and Maven (mvn), which downloads them, is not in PATH: install it "
            "(Debian: maven, macOS: brew install maven), or unpack Apache Kafka 4 and set KAFKA_HOME"
        )
    with tempfile.TemporaryDirectory(dir=cache, prefix="kafka-") as folder:
        log, fresh = cache / "maven.log", Path(folder) / "libs"
        # All that Maven writes stays in the cache; the temporary folder holds its target/ too.
        shutil.copy(pom, Path(folder) / "pom.xml")
        options = [f"-Dmaven.repo.local={cache / 'm2'}", "-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
        command = [maven, "-B", "-ntp", *options, "dependency:copy-dependencies"]
        with log.open("w") as output:
            run = subprocess.run(  # noqa: S603
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            )
        if run.returncode:
            errors = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("[ERROR]")]
            raise CallerError(
                f"Maven could not download Kafka's jars; its whole output is in {log}. Check the network or Maven's "
                "mirror settings and try again, or set KAFKA_HOME.\n" + "\n".join(errors[:5])
            )
        fresh.rename(libs)
