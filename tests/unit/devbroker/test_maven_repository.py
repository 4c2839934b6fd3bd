"""From where jars come, as Maven's own settings say it."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pipeline.cli.settings import settings as settings_command
from pipeline.devbroker.pinned_files import CENTRAL, Repository, mirror_of_central, repository
from pipeline.settings import load
from turnmill.errors import CallerError

NAMESPACE = 'xmlns="http://maven.apache.org/SETTINGS/1.2.0"'


def mirror(mirror_of: str, url: str = "https://mirror.example/maven", name: str = "ours") -> str:
    return f"<mirror><id>{name}</id><mirrorOf>{mirror_of}</mirrorOf><url>{url}</url></mirror>"


def read(*mirrors: str, servers: str = "", **environ: str) -> Repository | None:
    text = f"<settings {NAMESPACE}><mirrors>{''.join(mirrors)}</mirrors><servers>{servers}</servers></settings>"
    return mirror_of_central(text, environ, "settings.xml")


@pytest.mark.parametrize("mirror_of", ["central", "*", "external:*", "snapshots, central", "*,!snapshots"])
def test_a_mirror_of_central(mirror_of: str) -> None:
    assert read(mirror(mirror_of)) == Repository("https://mirror.example/maven", None, "settings.xml")


@pytest.mark.parametrize("mirror_of", ["snapshots", "*,!central", "external:http:*", ""])
def test_a_mirror_of_others(mirror_of: str) -> None:
    assert read(mirror(mirror_of)) is None


def test_the_one_that_names_central_goes_first() -> None:
    found = read(mirror("*", "https://all.example"), mirror("central", "https://central.example"))
    assert found is not None
    assert found.url == "https://central.example"


def test_a_login_with_variables() -> None:
    servers = "<server><id>other</id><username>x</username></server>"
    servers += "<server><id>ours</id><username>${env.USER_OF_IT}</username><password>${env.ITS}</password></server>"
    found = read(mirror("*", "https://${env.HOST_OF_IT}/maven/"), servers=servers, USER_OF_IT="me", ITS="s3cret")
    assert found is not None
    assert (found.url, found.login) == ("https://${env.HOST_OF_IT}/maven/", ("me", "s3cret"))
    assert found.address("a/b.jar") == "https://${env.HOST_OF_IT}/maven/a/b.jar"


def test_a_password_that_only_maven_can_read() -> None:
    servers = "<server><id>ours</id><username>me</username><password>{COQLCE6DU6GtcS5P=}</password></server>"
    with pytest.raises(ValueError, match="encrypted"):
        read(mirror("*"), servers=servers)


def test_settings_without_a_namespace_or_mirrors() -> None:
    assert mirror_of_central("<settings/>", {}, "settings.xml") is None
    with pytest.raises(ET.ParseError):
        mirror_of_central("<settings>", {}, "settings.xml")


def test_which_one_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert repository(None).url == CENTRAL
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(f"<settings><mirrors>{mirror('*')}</mirrors></settings>")
    assert repository(None).url == "https://mirror.example/maven"
    assert (
        repository(load({"TURNMILL_MAVEN_REPOSITORY": "https://me:pw@x/y"}).maven_repository).url == "https://me:pw@x/y"
    )
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(CallerError, match=r"settings\.xml can't be read .*TURNMILL_MAVEN_REPOSITORY"):
        repository(None)


def test_addresses_that_are_none_are_refused() -> None:
    for wrong in ("mirror.example", "file:///jars", "https://", "https://x/y?z"):
        with pytest.raises(CallerError, match="TURNMILL_MAVEN_REPOSITORY: https://host/path of a Maven repository"):
            load({"TURNMILL_MAVEN_REPOSITORY": wrong})


def test_its_password_is_never_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TURNMILL_MAVEN_REPOSITORY", "https://me:s3cret@mirror.example/maven")
    settings_command([], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "https://me:***@mirror.example/maven" in shown
    assert "s3cret" not in shown
    assert Repository("https://me:s3cret@x", None, "").shown("a.jar") == "https://me:***@x/a.jar"
