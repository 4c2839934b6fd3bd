from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pipeline.cli.settings import settings
from pipeline.settings import PREFIX, Settings


def run(*arguments: str) -> str:
    result = CliRunner().invoke(settings, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_every_setting_is_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = [PREFIX + name.upper() for name in Settings.model_fields]
    assert list(json.loads(run("--json"))) == names
    assert [line.split("`")[1] for line in run("--markdown").splitlines()[2:]] == names
    for name in names:
        assert name in run()


def test_values_in_force_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADMILL_PARTITIONS", "7")
    row = json.loads(run("--json"))["THREADMILL_PARTITIONS"]
    assert (row["value"], row["default"]) == ("7", "12")


def test_passwords_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADMILL_STORE", "postgresql://mill:hunter2@db:5432/threads")
    for form in ("--json", "--markdown"):
        assert "hunter2" not in run(form)
    assert json.loads(run("--json"))["THREADMILL_STORE"]["value"] == "postgresql://mill:***@db:5432/threads"


def test_table_cells_of_markdown_hold_no_bars() -> None:
    for line in run("--markdown").splitlines():
        assert line.count("|") == 4
