"""Whose jars Kafka runs from, and that what is pinned is what the pom asks for."""

import hashlib
import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pipeline.devbroker import jars as module
from pipeline.devbroker.jars import PINS, POM, Progress, jars, kafka_version
from pipeline.devbroker.pinned_files import Pinned, parse, render
from pipeline.settings import Settings
from tests.support.file_server import FileServer, file_server
from turnmill.errors import CallerError

JAR = b"a jar" * 10_000
NAME = "org/apache/kafka/kafka_2.13/4.1.2/kafka_2.13-4.1.2.jar"


@pytest.fixture(autouse=True)
def no_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One small jar is all that Kafka is."""
    pins = tmp_path / "pins"
    pins.write_text(render([Pinned(NAME, len(JAR), hashlib.sha256(JAR).hexdigest())]))
    monkeypatch.setattr(module, "PINS", pins)


def jars_of(settings: Settings, say: Progress) -> Path:
    return jars(settings.cache_folder, settings.maven_repository, say)


def settings(tmp_path: Path, server: FileServer | None = None) -> Settings:
    return Settings(
        home=tmp_path / "home", cache=tmp_path / "cache", maven_repository=server.url if server is not None else None
    )


@pytest.mark.parametrize(
    ("name", "version"),
    [("kafka_2.13-4.1.2.jar", 4), ("kafka_2.12-3.9.0.jar", 3), ("kafka_2.13-4.1.2-sources.jar", None)],
)
def test_kafka_version(name: str, version: int | None):
    assert kafka_version(name) == version


def test_kafka_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    monkeypatch.setenv("KAFKA_HOME", str(libs.parent))
    with pytest.raises(CallerError, match=r"has no libs/kafka_2\.\*\.jar"):
        jars_of(settings(tmp_path), print)
    (libs / "kafka_2.13-3.9.1.jar").touch()
    with pytest.raises(CallerError, match="holds Kafka 3: point it at"):
        jars_of(settings(tmp_path), print)
    (libs / "kafka_2.13-4.0.0.jar").touch()
    assert jars_of(settings(tmp_path), print) == libs


def test_what_is_pinned_is_what_the_pom_asks_for_and_more_of_it() -> None:
    pins = parse(PINS.read_text(encoding="utf-8"))
    paths = {file.path for file in pins}
    namespace = {"m": "http://maven.apache.org/POM/4.0.0"}
    asked = ET.parse(POM).findall(".//m:dependencies/m:dependency", namespace)
    for one in asked:
        group, artifact, version = (
            one.findtext(f"m:{name}", "", namespace) for name in ("groupId", "artifactId", "version")
        )
        assert f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar" in paths
    assert len(paths) == len(pins) == len({file.name for file in pins}) > len(asked) > 1
    assert PINS.read_text(encoding="utf-8") == render(pins)


@pytest.mark.usefixtures("pinned")
def test_two_at_once_download_once(tmp_path: Path) -> None:
    found: list[Path] = []
    said: list[str] = []
    with file_server({NAME: JAR}) as server:
        mine = settings(tmp_path, server)
        threads = [threading.Thread(target=lambda: found.append(jars_of(mine, said.append))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.requests) == 1
    assert len(found) == 3
    assert [(jar.name, jar.read_bytes()) for jar in found[0].iterdir()] == [("kafka_2.13-4.1.2.jar", JAR)]
    assert len(said) == 1
    assert jars_of(settings(tmp_path), print) == found[0]


@pytest.mark.usefixtures("pinned")
def test_jars_are_compared_before_each_use(tmp_path: Path) -> None:
    with file_server({NAME: JAR}) as server:
        mine = settings(tmp_path, server)
        libs = jars_of(mine, print)
        jar = libs / "kafka_2.13-4.1.2.jar"
        (libs / "bootstrap.bin").write_bytes(b"ours")
        for harm in (
            lambda: jar.write_bytes(b"b" + JAR[1:]),
            lambda: jar.write_bytes(JAR + b"more"),
            jar.unlink,
            lambda: (libs / "a-first.jar").write_bytes(b"another's"),
        ):
            harm()
            assert jars_of(mine, print) == libs
            assert [(one.name, one.read_bytes()) for one in libs.glob("*.jar")] == [(jar.name, JAR)]
        assert (libs / "bootstrap.bin").read_bytes() == b"ours"
        assert len(server.requests) == 4  # one at first; the other jar needed none
    jar.write_bytes(b"b" + JAR[1:])
    with file_server({}) as server, pytest.raises(CallerError, match="answers 404"):
        jars_of(settings(tmp_path, server), print)


@pytest.mark.usefixtures("pinned")
def test_what_failed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with (
        file_server({}) as server,
        pytest.raises(CallerError, match=r"kafka_2\.13-4\.1\.2\.jar answers 404: it has no"),
    ):
        jars_of(settings(tmp_path, server), print)
    (fresh,) = (tmp_path / "cache").glob("kafka-*.new")
    (fresh / "kafka_2.13-4.1.2.jar.part").write_bytes(JAR[:20_000])
    with file_server({NAME: JAR}) as server:
        assert (jars_of(settings(tmp_path, server), print) / "kafka_2.13-4.1.2.jar").read_bytes() == JAR
        assert server.requests == [(f"/{NAME}", "bytes=20000-")]
    assert not fresh.exists()
