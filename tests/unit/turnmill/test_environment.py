"""What the client reads of an environment that it shares with the pipeline."""

from pathlib import Path

import pytest

from pipeline.settings import Settings
from turnmill import CallerError, ClientSettings, Publisher, load_settings
from turnmill.settings import PREFIX

OURS = sorted(ClientSettings.model_fields)
PIPELINES = sorted(Settings.model_fields.keys() - ClientSettings.model_fields.keys())


def test_variables_are_read_and_arguments_win() -> None:
    environ = {"TURNMILL_BROKERS": "kafka:9092", "TURNMILL_TOPIC_PREFIX": "acme", "TURNMILL_HOME": ""}
    settings = load_settings(environ, topic_prefix="other")
    assert type(settings) is ClientSettings
    assert (settings.brokers, settings.topic_prefix, settings.home) == ("kafka:9092", "other", Path(".turnmill"))


@pytest.mark.parametrize("name", PIPELINES)
def test_variables_of_the_pipeline_are_left_alone(name: str) -> None:
    assert load_settings({PREFIX + name.upper(): "whatever it takes"}) == load_settings({})


@pytest.mark.parametrize("name", OURS)
def test_a_misspelt_variable_is_named_with_the_right_one(name: str) -> None:
    for slip in {name[:n] + name[n + 1 :] for n in range(1, len(name))}:
        with pytest.raises(CallerError) as caught:
            load_settings({PREFIX + slip.upper(): "x"})
        assert (
            str(caught.value) == f"{PREFIX}{slip.upper()} is no setting of Turnmill: is {PREFIX}{name.upper()} meant?"
        )


def test_all_that_is_wrong_is_said_at_once() -> None:
    environ = {"TURNMILL_BROKER": "x", "TURNMILL_BROKERS": "kafka", "TURNMILL_SPOOL_BYTES": "0"}
    with pytest.raises(CallerError) as caught:
        load_settings(environ)
    misspelt, *bad = str(caught.value).splitlines()
    assert misspelt.startswith("TURNMILL_BROKER is no setting")
    assert sorted(line.partition(":")[0] for line in bad) == ["TURNMILL_BROKERS", "TURNMILL_SPOOL_BYTES"]


def test_a_publisher_reads_the_environment_or_takes_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMILL_TOPIC_PREFIX", "acme")
    monkeypatch.setenv("TURNMILL_STORE", "sqlite:///threads.db")
    assert Publisher()._settings == load_settings()
    assert Publisher()._settings.topic_prefix == "acme"
    for settings in (ClientSettings(topic_prefix="own"), Settings(topic_prefix="own")):
        assert Publisher(settings)._settings.topic_prefix == "own"
    monkeypatch.setenv("TURNMILL_BROKERS", "nowhere")
    with pytest.raises(CallerError, match="TURNMILL_BROKERS: host:port"):
        Publisher()
