"""A suite as tables on a terminal or in Markdown, and as JSON."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.bench import capture
from tests.bench.conditions import in_words
from tests.bench.contenders import CONTENDERS, RATIOS
from tests.bench.gateway import GatewayLoad
from tests.bench.proxy import MODES as PROXY_MODES
from tests.bench.proxy import Proxied
from tests.bench.publishing import MODES
from tests.bench.result import percentile
from tests.bench.results import Suite
from tests.bench.tables import SHARES, sheets
from turnmill.errors import CallerError

MARKS: Final = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.DOTALL)


def show(suite: Suite, where: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    for line in in_words(where):
        console.print(line, soft_wrap=True)
    for sheet in sheets(suite):
        table = Table(*sheet.columns, title=sheet.title, title_justify="left")
        for row in sheet.rows:
            table.add_row(*row)
        console.print()
        console.print(table)
    for line in (*_left_out(suite), *_failed(suite)):
        console.print(line)


def markdown(suite: Suite, where: dict[str, Any]) -> str:
    """The tables as Markdown."""
    blocks = ["\n".join(f"{line}  " for line in in_words(where)).rstrip()]
    blocks += [f"**{sheet.title}**\n\n{in_cells(sheet.columns, sheet.rows)}" for sheet in sheets(suite)]
    blocks += [*_left_out(suite), *_failed(suite)]
    return "\n\n".join(blocks) + "\n"


def in_cells(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *rows))


def put_into(page: str, text: str) -> str:
    """A page with `text` between its marks `<!-- measured -->` and `<!-- end -->`. Raises CallerError without them."""
    if not MARKS.search(page):
        raise CallerError("the page has no place for the tables: a line <!-- measured --> and a later one <!-- end -->")
    return MARKS.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page)


def _left_out(suite: Suite) -> list[str]:
    return [
        f"Not measured: {CONTENDERS[name].title if name in CONTENDERS else name}. It needs {needs}."
        for name, needs in suite.left_out.items()
    ]


def failed(suite: Suite) -> dict[str, str]:
    """Title of each part that failed -> why."""
    loads = {
        f"{result.load.title}: {CONTENDERS[name].title}": why
        for result in suite.results
        for name, why in result.failed.items()
    }
    return {**loads, **suite.failed}


def _failed(suite: Suite) -> list[str]:
    return [f"Failed: {part}: {' '.join(why.split())[:500]}" for part, why in failed(suite).items()]


def as_json(suite: Suite, where: dict[str, Any]) -> dict[str, Any]:
    """-> {conditions, loads: [{…, contenders: [{name, measured: […], rate, ratios}]}], latency, memory, …}."""
    return {
        "conditions": where,
        "loads": [
            {
                "name": result.load.name,
                "title": result.load.title,
                "events": result.load.events,
                "runs": result.load.runs,
                "contenders": [
                    {
                        "name": name,
                        "title": CONTENDERS[name].title,
                        "measured": [asdict(one) for one in measured],
                        "rate": result.rate(name),
                        "cpu_us_an_event": result.cost(name),
                        "ratios": {other: result.ratio(name, other) for other in RATIOS if other in result.measured},
                    }
                    for name, measured in result.measured.items()
                ],
            }
            for result in suite.results
        ],
        "latency": [{"store": one.store, "runs": len(one.ms), **_percentiles(one.ms)} for one in suite.latencies],
        "memory": {
            "backlogs": [asdict(one) for one in suite.backlogs],
            "open_turns": [asdict(one) for one in suite.open_turns],
        },
        "publishing": [
            {"streams": one.streams, "mode": mode, "cpu_us_an_event": one.cost(mode), "ratio": one.ratio(mode)}
            for one in suite.publishing
            for mode in MODES
        ],
        "proxy": None if suite.proxy is None else _proxy_json(suite.proxy),
        "capture": [
            {
                "streams": one.streams,
                "mode": mode,
                "cpu_us_an_event": one.cost(mode),
                "ratio": one.ratio(mode),
                "first_byte_ms": one.median(mode),
                "first_byte_ratio": one.first_ratio(mode),
                "script_later_s": one.script_later(mode),
            }
            for one in suite.captured
            for mode in capture.MODES
        ],
        "gateway": None if suite.gateway is None else _gateway_json(suite.gateway),
        "history": [
            {**asdict(one), "queries": {what: _percentiles(ms) for what, ms in one.queries.items()}}
            for one in suite.histories
        ],
        "lake": [{**asdict(one), "cpu_us_a_turn": one.cost} for one in suite.lake],
        "growth": [asdict(one) for one in suite.growth],
        "retention": [{**asdict(one), "ms": _percentiles(one.ms), "turns_per_s": one.rate} for one in suite.expiries],
        "search": [
            {**asdict(one), "queries": {what: _percentiles(ms) for what, ms in one.queries.items()}}
            for one in suite.searches
        ],
        "asked": [asdict(one) for one in suite.asked],
        "scale": asdict(suite.scale),
        "assembly": [asdict(one) for one in suite.assembly],
        "left_out": suite.left_out,
        "failed": failed(suite),
    }


def _proxy_json(measured: Proxied) -> dict[str, Any]:
    return {
        mode: {
            "ms": _percentiles(measured.ms[mode]),
            "cpu_us_a_token": measured.cost(mode),
            "ratio": measured.ratio(mode),
        }
        for mode in PROXY_MODES
    }


def _gateway_json(measured: GatewayLoad) -> dict[str, Any]:
    return {
        **asdict(measured),
        "live": {**asdict(measured.live), "ms": _percentiles(measured.live.ms)},
        "queries": {name: _percentiles(ms) for name, ms in measured.queries.items()},
    }


def _percentiles(ascending: Sequence[float]) -> dict[str, float]:
    return {f"p{share}": percentile(ascending, share) for share in SHARES}
