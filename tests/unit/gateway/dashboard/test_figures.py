from hypothesis import given
from hypothesis import strategies as st

from pipeline.gateway.dashboard.figures import ANY, FIELDS, INDEX, Figures, FiguresReading, Series
from pipeline.observability.metrics import OTHER

ACME, GLOBEX = Series("gpt-5", "support", "acme"), Series("gpt-5", "travel", "globex")


def totals(rows: list[list[int]], name: str) -> dict[tuple[int, int], int]:
    return {(row[0], row[1]): row[2 + INDEX[name]] for row in rows}


def test_a_second_sums_what_comes_in_it() -> None:
    figures = Figures(window=10)
    figures.add(100, ACME, {"events": 2, "turns": 1})
    figures.add(100, GLOBEX, {"events": 3})
    figures.add(101, ACME, {"events": 5})
    rows = FiguresReading(figures, "total").rows(100, 101)
    assert totals(rows, "events") == {(100, 0): 5, (101, 0): 5}
    assert totals(rows, "turns") == {(100, 0): 1, (101, 0): 0}


def test_the_ring_forgets_and_takes_nothing_older_than_itself() -> None:
    figures = Figures(window=10)
    figures.add(100, ACME, {"events": 1})
    figures.add(110, ACME, {"events": 7})
    figures.add(100, ACME, {"events": 100})
    assert totals(FiguresReading(figures, "total").rows(0, 120), "events") == {}
    assert totals(FiguresReading(figures, "total").rows(0, 110), "events") == {(110, 0): 7}


def test_a_tenant_sees_its_own_and_nothing_of_others() -> None:
    figures = Figures()
    figures.add(100, ACME, {"events": 2})
    figures.add(100, GLOBEX, {"events": 3})
    figures.add(100, Series(None, None, None), {"dead_letters": 9})
    reading = FiguresReading(figures, "agent", Series(None, None, "acme"))
    rows = reading.rows(100, 100)
    assert totals(rows, "events") == {(100, 0): 2}
    assert totals(rows, "dead_letters") == {(100, 0): 0}
    assert reading.groups == ["support"]
    rows = FiguresReading(figures, "total", Series(None, None, "")).rows(100, 100)
    assert (totals(rows, "events"), totals(rows, "dead_letters")) == ({(100, 0): 0}, {(100, 0): 9})


def test_a_reader_asks_for_one_model_of_one_agent() -> None:
    figures = Figures()
    for model in ("gpt-5", "gpt-5-mini", None):
        for agent in ("support", "travel"):
            figures.add(100, Series(model, agent, "acme"), {"events": 1 if agent == "travel" else 10})
    for only, events in ((Series("gpt-5", None, None), 11), (Series(None, "travel", None), 3),
                         (Series("gpt-5", "travel", "acme"), 1), (Series("gpt-5", "travel", "globex"), 0)):  # fmt: skip
        rows = FiguresReading(figures, "total", only).rows(100, 100)
        assert sum(totals(rows, "events").values()) == events, only


def test_groups_keep_their_numbers_and_the_rest_is_other() -> None:
    figures = Figures()
    for number, tokens in enumerate((10, 30, 20)):
        figures.add(100, Series(f"m{number}", "a", None), {"output_tokens": tokens})
    reading = FiguresReading(figures, "model", ANY, groups=2)
    assert totals(reading.rows(100, 100), "output_tokens") == {(100, -1): 10, (100, 0): 30, (100, 1): 20}
    figures.add(101, Series("m9", "a", None), {"output_tokens": 1000})
    assert totals(reading.rows(101, 101), "output_tokens") == {(101, -1): 1000}
    assert reading.groups == ["m1", "m2"]


def test_too_many_series_lose_their_names() -> None:
    figures = Figures(series=2)
    for number in range(5):
        figures.add(100, Series(f"m{number}", "a", "acme"), {"events": 1})
    reading = FiguresReading(figures, "model")
    assert sorted(map(str, reading.rows(100, 100) and reading.groups)) == ["m0", "m1", OTHER]
    assert sum(totals(reading.rows(100, 100), "events").values()) == 5
    assert (
        sum(totals(FiguresReading(figures, "model", Series(None, None, "acme")).rows(100, 100), "events").values()) == 5
    )


def test_many_names_of_one_tenant_take_no_figure_from_another() -> None:
    """Found by the review: with 300 names a second, a tenant emptied the live figures of all others."""
    figures, acme = Figures(series=20), Series(None, None, "acme")
    for number in range(500):
        figures.add(100, Series(f"m{number}", "a", "evil"), {"events": 1})
    for model in ("m1", "m2", "m3", "m3"):
        figures.add(100, Series(model, "support", "acme"), {"events": 1})
    reading = FiguresReading(figures, "model", acme)
    found = totals(reading.rows(100, 100), "events")
    named = {reading.groups[group]: count for (_, group), count in found.items()}
    assert named == {"m1": 1, "m2": 1, OTHER: 2}, "two names of its own, and one sum of the rest"


def test_memory_is_bounded_whatever_is_named() -> None:
    figures = Figures(series=20)
    for number in range(500):
        figures.add(100, Series("m", "a", f"tenant {number}"), {"events": 1})
    [(_, sums)] = figures.seconds(100, 100)
    assert len(sums) == 61
    assert sum(counts[INDEX["events"]] for counts in sums.values()) == 500


@given(
    st.lists(
        st.tuples(
            st.integers(1000, 1030),
            st.sampled_from(["a", "b", None]),
            st.sampled_from(["x", "y", "z"]),
            st.integers(0, 9),
        )
    ),
    st.sampled_from(["total", "model", "agent", "tenant"]),
    st.integers(1, 3),
)
def test_however_it_is_grouped_the_sum_is_the_same(
    added: list[tuple[int, str | None, str, int]], by: str, groups: int
) -> None:
    figures = Figures(window=60)
    for at, tenant, model, events in added:
        figures.add(at, Series(model, "agent", tenant), {"events": events})
    rows = FiguresReading(figures, by, ANY, groups).rows(1000, 1030)  # type: ignore[arg-type]
    assert sum(totals(rows, "events").values()) == sum(events for *_, events in added)
    assert all(len(row) == 2 + len(FIELDS) for row in rows)
