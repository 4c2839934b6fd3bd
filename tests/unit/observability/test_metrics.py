"""The table of metrics, and the bounds on what streams can make of it."""

import re
from importlib.metadata import version

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metric, Metrics
from topics import CORE

LABELS = {"model": "m", "provider": "p", "agent": "a", "tenant": "t"}


def exposed(metrics: Metrics) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """What a scrape sees: sample name -> labels -> value."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_every_metric_of_the_module_is_in_the_table_once() -> None:
    declared = [value for value in vars(m).values() if isinstance(value, Metric)]
    assert sorted(metric.name for metric in declared) == sorted(metric.name for metric in m.TABLE)
    assert len({metric.name for metric in m.TABLE}) == len(m.TABLE)


@pytest.mark.parametrize("metric", m.TABLE, ids=lambda metric: metric.name)
def test_names_and_kinds_follow_prometheus(metric: Metric) -> None:
    assert re.fullmatch(r"(turnmill|gen_ai)_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(metric.buckets)
    assert metric.help.endswith(".")
    assert (metric.name, metric.kind, ", ".join(metric.labels), metric.help) in m.table()


def test_buckets_are_those_of_the_conventions() -> None:
    assert m.TOKEN_BUCKETS[:3] == (1, 4, 16)
    assert m.TOKEN_BUCKETS[-1] == 67_108_864
    assert (m.OPERATION_BUCKETS[0], m.OPERATION_BUCKETS[-1], len(m.OPERATION_BUCKETS)) == (0.01, 81.92, 14)


def test_every_metric_is_exposed_under_its_name() -> None:
    metrics = Metrics()
    for metric in m.TABLE:
        update = {"counter": metrics.add, "gauge": metrics.set, "histogram": metrics.observe}[metric.kind]
        update(metric, 2, **dict.fromkeys(metric.labels, "x"))
    samples = exposed(metrics)
    for metric in m.TABLE:
        name = f"{metric.name}_sum" if metric.kind == "histogram" else metric.name
        own = [1.0] if metric is m.BUILD else []
        assert list(samples[name].values()) == [*own, 2.0]
    assert not [name for name in samples if name.endswith("_created")]


def test_a_scrape_sees_how_the_core_runs() -> None:
    labels = (("core", CORE), ("version", version("turnmill")))
    assert exposed(Metrics())["turnmill_build_info"] == {labels: 1.0}


def test_registries_are_apart() -> None:
    one, other = Metrics(), Metrics()
    one.add(m.COMMITS)
    assert one.registry.get_sample_value("turnmill_commits_total") == 1
    assert other.registry.get_sample_value("turnmill_commits_total") == 0


def test_missing_values_are_unknown_and_the_rest_is_other() -> None:
    metrics = Metrics(series=2)
    for model in (None, "", "one", "two", "three", "four", "one"):
        metrics.add(m.COST, 1, **{**LABELS, "model": model})
    by_model = {dict(labels)["model"]: value for labels, value in exposed(metrics)["turnmill_cost_usd_total"].items()}
    assert by_model == {"unknown": 2, "one": 2, "two": 1, "other": 2}


def test_labels_of_the_pipelines_own_are_not_bounded() -> None:
    metrics = Metrics(series=1)
    for partition in range(30):
        metrics.set(m.LAG, partition, role="assemble", topic="events", partition=str(partition))
    assert len(exposed(metrics)["turnmill_lag_records"]) == 30
    metrics.forget(m.LAG, role="assemble", topic="events", partition="7")
    assert len(exposed(metrics)["turnmill_lag_records"]) == 29


def test_combinations_are_bounded_too() -> None:
    metrics = Metrics(series=5)
    for n in range(5):
        for k in range(5):
            for i in range(5):
                metrics.add(m.COST, 1, model=f"m{n}", provider=f"p{k}", agent=f"a{i}", tenant="t")
    series = exposed(metrics)["turnmill_cost_usd_total"]
    assert len(series) == 5 * m.SERIES_PER_VALUE + 1
    assert sum(series.values()) == 125


@given(st.lists(st.text() | st.none(), max_size=20))
def test_any_text_can_be_a_label_and_nothing_is_lost(models: list[str | None]) -> None:
    metrics = Metrics(series=3)
    for model in models:
        metrics.add(m.COST, 1, **{**LABELS, "model": model})
    series = exposed(metrics).get("turnmill_cost_usd_total", {})
    assert sum(series.values()) == len(models)
    assert len(series) <= 5


def test_lone_surrogates_and_long_texts_are_exposed() -> None:
    metrics = Metrics()
    metrics.add(m.DEAD_LETTERS, reason="\ud800" + "x" * 1000)
    (labels,) = exposed(metrics)["turnmill_dead_letters_total"]
    assert labels == (("reason", "?" + "x" * (m.MAX_VALUE_LENGTH - 1)),)


def test_wrong_use_is_an_error() -> None:
    metrics = Metrics()
    with pytest.raises(ValueError, match="has the labels"):
        metrics.add(m.COST, 1, model="m")
    with pytest.raises(KeyError):
        metrics.set(m.COST, 1, **LABELS)
    with pytest.raises(ValueError, match="non-negative"):
        metrics.add(m.COMMITS, -1)
