"""A suite of measurements goes on past one that fails."""

from pipeline.settings import load
from tests.bench import report
from tests.bench.contenders import CONTENDERS
from tests.bench.load_topics import Site
from tests.bench.loads import LOADS
from tests.bench.result import Contender, Measured
from tests.bench.results import Suite
from tests.bench.suite import _part, _result
from tests.unit.bench.test_report import WHERE
from turnmill.errors import BrokerError


async def test_who_fails_once_has_no_figure_and_the_others_have_theirs() -> None:
    asked: list[str] = []

    async def well(site: Site) -> Measured:
        asked.append("raw")
        return Measured(site.load.events, 2.0)

    async def badly(site: Site) -> Measured:
        asked.append("turns")
        raise BrokerError("it did not\nget ready")

    contenders = [Contender("turns", CONTENDERS["turns"].title, badly), Contender("raw", CONTENDERS["raw"].title, well)]
    result = await _result(Site(load(), LOADS["text-8"]), contenders, 2, lambda _: None)
    assert asked == ["turns", "raw", "raw"]
    assert {name: len(found) for name, found in result.measured.items()} == {"raw": 2}
    suite = Suite(results=[result])
    shown = report.markdown(suite, WHERE)
    assert f"| {CONTENDERS['turns'].title} | failed | – | – |" in shown
    title = f"{result.load.title}: {CONTENDERS['turns'].title}"
    assert f"Failed: {title}: it did not get ready" in shown
    assert list(report.failed(suite)) == [title]


def test_a_part_that_fails_is_named_with_its_reason() -> None:
    shown: list[str] = []
    suite = Suite()
    with _part(suite.failed, "memory", shown.append):
        raise TimeoutError
    assert (shown, suite.failed) == (["memory"], {"memory": "TimeoutError()"})
    assert report.as_json(suite, WHERE)["failed"] == {"memory": "TimeoutError()"}


def test_of_several_errors_at_once_the_first_says_why() -> None:
    failed: dict[str, str] = {}
    with _part(failed, "gateway", lambda _: None):
        raise ExceptionGroup("two", [ExceptionGroup("one", [BrokerError("no topic")]), ValueError("x")])
    assert failed == {"gateway": "no topic"}
