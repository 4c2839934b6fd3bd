import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli.settings import settings
from pipeline.settings import Settings, load
from turnmill.errors import CallerError
from turnmill.settings import PREFIX


def run(*arguments: str) -> str:
    result = CliRunner().invoke(settings, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_every_setting_is_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = [PREFIX + name.upper() for name in Settings.model_fields]
    assert list(json.loads(run("--json"))) == names
    assert [line.split("`")[1] for line in run("--markdown").splitlines()[2:]] == names
    shown = run()
    for name in names:
        assert name in shown


def test_values_in_force_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMILL_PARTITIONS", "7")
    row = json.loads(run("--json"))["TURNMILL_PARTITIONS"]
    assert (row["value"], row["default"]) == ("7", "12")


def test_passwords_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMILL_STORE", "postgresql://mill:hunter2@db:5432/threads")
    for form in ("--json", "--markdown"):
        assert "hunter2" not in run(form)
    assert json.loads(run("--json"))["TURNMILL_STORE"]["value"] == "postgresql://mill:***@db:5432/threads"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mill:hunter2@[::1]:5432/threads",
        "postgres://db1:1,db2/threads?user=mill&password=hunter2&x=y",
        "postgresql://db/threads?sslpassword=hunter2",
    ],
)
def test_a_password_is_masked_wherever_it_stands(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("TURNMILL_STORE", url)
    assert json.loads(run("--json"))["TURNMILL_STORE"]["value"] == url.replace("hunter2", "***")


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("CONTENT", "s3://key:hunter2@bucket/prefix"),
        ("ARCHIVE", "iceberg+s3://key:hunter2@bucket/prefix"),
        ("ARCHIVE_CATALOG", "https://mill:hunter2@catalog/"),
        ("ARCHIVE_CATALOG", "https://catalog/?token=hunter2"),
    ],
)
def test_a_login_in_an_address_that_takes_none(name: str, url: str) -> None:
    """The chart would put it into a ConfigMap."""
    with pytest.raises(CallerError, match=f"TURNMILL_{name}") as raised:
        load({f"TURNMILL_{name}": url})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["postgresql://mill:hun/ter2@db/threads", "postgresql://db:port/threads", "mysql://db/x"]
)
def test_an_address_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(CallerError, match="TURNMILL_STORE: sqlite:///path or postgresql://") as raised:
        load({"TURNMILL_STORE": url})
    assert "ter2" not in str(raised.value)


def test_retention_is_by_topic_in_seconds() -> None:
    assert load({"TURNMILL_RETENTION": "events=3600, dead-letters=60"}).retention_ms == {
        "events": 3_600_000,
        "dead-letters": 60_000,
    }
    assert load({}).retention_ms == {}


@pytest.mark.parametrize("value", ["events", "events=1d", "events=0", "events=-1", "turnmill.events=5", "events=5,"])
def test_a_retention_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(CallerError, match="TURNMILL_RETENTION: TOPIC=SECONDS,… is expected, TOPIC one of events,"):
        load({"TURNMILL_RETENTION": value})


def test_table_cells_of_markdown_hold_no_bars() -> None:
    for line in run("--markdown").splitlines():
        assert line.count("|") == 4


def test_downloads_are_the_user_s_unless_the_folder_has_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, so not to be taken")
    assert Settings().cache_folder == tmp_path / "user" / ".cache" / "turnmill"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Settings().cache_folder == tmp_path / "xdg" / "turnmill"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Settings().cache_folder == tmp_path / "user" / "Library" / "Caches" / "turnmill"
    (tmp_path / ".cache" / "turnmill").mkdir(parents=True)
    assert Settings().cache_folder == tmp_path / ".cache" / "turnmill"
    assert Settings(cache=Path("mine")).cache_folder == tmp_path / "mine"


def test_a_scheme_before_a_broker_is_said_to_be_too_much() -> None:
    with pytest.raises(CallerError, match="without a scheme"):
        load({"TURNMILL_BROKERS": "kafka://localhost:9092"})
    with pytest.raises(CallerError, match="host:port"):
        load({"TURNMILL_BROKERS": "localhost"})


def test_a_misspelt_setting_is_told_which_is_meant() -> None:
    with pytest.raises(CallerError, match="is TURNMILL_BROKERS meant"):
        load({"TURNMILL_BROKER": "localhost:9092"})
    with pytest.raises(CallerError, match="`turnmill settings` lists them"):
        load({"TURNMILL_COFFEE": "1"})
