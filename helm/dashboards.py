"""Grafana's dashboards as code: a dashboard is rows of panels, a panel is a title, a unit and queries.

Schema: https://www.npmjs.com/package/@grafana/schema, schema version 39 (Grafana 10.2 and newer).
"""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading, left to right."""

    title: str
    panels: tuple[Panel, ...]


def rate(metric: str, by: str, labels: str = IN) -> str:
    """Return the query for a counter's events per second, summed by labels."""
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def total(metric: str, labels: str = IN, by: str = "") -> str:
    """Return the query for a counter's increase in the displayed time range."""
    return f"sum{f' by ({by}) ' if by else ''}(increase({metric}{{{labels}}}[$__range]))"


def quantiles(metric: str, labels: str = IN, by: str = "") -> tuple[Query, ...]:
    """Return the queries for p50, p95 and p99 of a histogram."""
    grouped = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(
        (
            f"histogram_quantile({q}, sum by ({grouped}) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))",
            f"p{int(q * 100)}{legend}",
        )
        for q in (0.5, 0.95, 0.99)
    )


def dashboard(uid: str, title: str, rows: Sequence[Row], variables: Sequence[str] = ()) -> Json:
    """Return the JSON that Grafana imports; `variables`: labels whose values users can select."""
    panels: list[Json] = []
    top = 0
    for row in rows:
        panels.append(
            _place({"type": "row", "title": row.title, "collapsed": False, "panels": []}, len(panels), 0, top)
        )
        top += 1
        left = 0
        for panel in row.panels:
            height = HEIGHT // 2 if panel.kind == "stat" else HEIGHT
            if left + panel.width > WIDTH:
                left, top = 0, top + height
            panels.append(_place(_panel(panel), len(panels), left, top, panel.width, height))
            left += panel.width
        top += HEIGHT // 2 if row.panels[-1].kind == "stat" else HEIGHT
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
