"""Grafana's dashboards as code: a dashboard is rows of panels, a panel is a title, a unit and queries.

Schema: https://www.npmjs.com/package/@grafana/schema, schema version 39 (Grafana 10.2 and newer).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
Query = tuple[str, str]
"""PromQL, and the legend of its series."""

IN: Final = 'namespace="$namespace",release="$release"'
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24
HEIGHT: Final = 8
_LINK: Final = {
    "title": "Turnmill",
    "type": "dashboards",
    "tags": ["turnmill"],
    "icon": "",
    "tooltip": "",
    "asDropdown": False,
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; `unit` is Grafana's name of it. `width` of 24 columns."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 8
    help: str = ""


def stat(title: str, query: str, unit: str = "short", help: str = "") -> Panel:  # noqa: A002  # as Panel calls it
    """Return a narrow panel with the newest value of a query."""
    return Panel(title, unit, ((query, ""),), "stat", 4, help)


def graph(title: str, *queries: Query, unit: str = "short", help: str = "") -> Panel:  # noqa: A002  # as above
    """Return a panel with the course of queries."""
    return Panel(title, unit, queries, help=help)


def each(label: str, query: str) -> Query:
    """Return a query with a series for each value of a label, which names it."""
    return query, f"{{{{{label}}}}}"


def rates(metric: str, label: str, labels: str = IN) -> Query:
    """Return the query for a counter's events per second, with a series for each value of a label."""
    return each(label, rate(metric, labels, label))


def rate(metric: str, labels: str = IN, by: str = "") -> str:
    """Return the query for a counter's events per second, summed, or by a label."""
    return f"sum{f' by ({by}) ' if by else ''}(rate({metric}{{{labels}}}[$__rate_interval]))"


def total(metric: str, labels: str = IN, by: str = "") -> str:
    """Return the query for a counter's increase in the displayed time range."""
    return f"sum{f' by ({by}) ' if by else ''}(increase({metric}{{{labels}}}[$__range]))"


def quantile(q: float, metric: str, labels: str = IN, by: str = "") -> str:
    """Return the query for a quantile of a histogram, perhaps by a label."""
    grouped = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({grouped}) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))"


def quantiles(metric: str, labels: str = IN) -> tuple[Query, ...]:
    """Return the queries for p50, p95 and p99 of a histogram."""
    return tuple((quantile(q, metric, labels), f"p{int(q * 100)}") for q in (0.5, 0.95, 0.99))


def dashboard(uid: str, title: str, rows: Mapping[str, Sequence[Panel]], variables: Sequence[str] = ()) -> Json:
    """Return the JSON that Grafana imports. `rows`: panels, left to right, by their heading.

    `variables`: labels whose values users can select.
    """
    panels: list[Json] = []
    top = 0
    for heading, row in rows.items():
        panels.append(_place({"type": "row", "title": heading, "collapsed": False, "panels": []}, len(panels), 0, top))
        top += 1
        left = 0
        for panel in row:
            height = HEIGHT // 2 if panel.kind == "stat" else HEIGHT
            if left + panel.width > WIDTH:
                left, top = 0, top + height
            panels.append(_place(_panel(panel), len(panels), left, top, panel.width, height))
            left += panel.width
        top += HEIGHT // 2 if row[-1].kind == "stat" else HEIGHT
    return {
        "uid": uid,
        "title": title,
        "tags": ["turnmill"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [_LINK],
        "templating": {"list": _variables(variables)},
        "panels": panels,
    }


def _variables(labels: Sequence[str]) -> list[Json]:
    known = "turnmill_last_progress_timestamp_seconds"
    scoped = f"turnmill_agent_turns_total{{{IN}}}"
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0},
        _choice("namespace", f"label_values({known}, namespace)"),
        _choice("release", f'label_values({known}{{namespace="$namespace"}}, release)'),
        *(_choice(label, f"label_values({scoped}, {label})", several=True) for label in labels),
    ]


def _choice(name: str, query: str, *, several: bool = False) -> Json:
    every = {"multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        **(every if several else {"multi": False, "includeAll": False}),
    }


def _panel(panel: Panel) -> Json:
    instant = panel.kind in ("stat", "bargauge")
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend or "__auto",
            "instant": instant,
            "range": not instant,
        }
        for number, (query, legend) in enumerate(panel.queries)
    ]
    defaults: Json = {"unit": panel.unit, "min": 0, "color": {"mode": "palette-classic"}}
    options: Json = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    if panel.kind == "timeseries":
        defaults["custom"] = {"fillOpacity": 10, "showPoints": "never", "lineWidth": 1}
        options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
    }


def _place(panel: Json, number: int, left: int, top: int, width: int = WIDTH, height: int = 1) -> Json:
    return {"id": number + 1, **panel, "gridPos": {"x": left, "y": top, "w": width, "h": height}}
