"""Alerts as values: a figure of stored usage or feedback beyond a threshold, over the time until now. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from pipeline.policies.entries import entries, name_of, same_name
from topics.notice import ALERT_ENDED, ALERT_STARTED, VERSION, NoticeRecord
from turnmill.labels import KINDS
from turnmill.limits import ALERTS

FEEDBACK: Final = "feedback"
FIGURES: Final = ("cost_usd", "error_rate", "ttft_p95_ms", "duration_p95_ms", FEEDBACK)
DIMENSIONS: Final = ("tenant", "agent", "model", *KINDS)  # that an alert is limited to, or looks at each by itself
KEYS: Final = ("name", "figure", "above", "below", "within", "by", "least", FEEDBACK, *DIMENSIONS)
WITHIN: Final = re.compile(r"([1-9][0-9]{0,3})([mhd])")
UNITS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
MAX_WITHIN_MS: Final = 31 * UNITS["d"]
MARGIN: Final = 0.1  # part of the threshold by which a figure must be better again, so that no alert flickers


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of the turns that an alert looks at; None: not known. `count`: the turns, responses or votes in it.

    `group`: their tenant, agent, label and so on, as the alert's `by` has it; "" for what has none.
    """

    group: str
    value: float | None
    count: int


@dataclass(frozen=True, slots=True)
class On:
    """An alert that is on, for a group if it has any, since `since`; seen last at `seen` (epoch ms).

    `data`: as `AlertOn` in `topics.notice` has it, without the times; `value` is the newest.
    """

    alert: str
    group: str
    since: int
    seen: int
    data: Mapping[str, Any]

    @property
    def tenant(self) -> str | None:
        """The tenant that it is about, "" for usage without any; None: all."""
        tenant: str | None = self.data["of"].get("tenant")
        return tenant

    def notice(self, end: int | None = None) -> NoticeRecord:
        """Return the notice of its start, or of its end; the id is the same, whichever process makes it."""
        kind = ALERT_STARTED if end is None else ALERT_ENDED
        named = f"{self.alert}\n{self.group}\n{self.since}\n{kind}".encode("utf-8", "backslashreplace")
        data = {**self.data, "start": self.since, **({} if end is None else {"end": end})}
        notice: NoticeRecord = {
            "v": VERSION,
            "id": f"alert_{sha256(named).hexdigest()[:32]}",
            "type": kind,
            "at": self.since if end is None else end,
            "data": data,
        }
        if self.tenant:
            notice["tenant"] = self.tenant
        return notice


@dataclass(frozen=True, slots=True)
class Alert:
    """It is on while the `figure` of the last `within_ms` is beyond the threshold, `above` it or below.

    `where`: the dimensions that usage must have. `by`: the dimension of which each value is looked at by itself; None:
    all together. `least`: so many turns, responses or votes must be there before it begins. `feedback`: the name of
    feedback whose mean is the figure.
    """

    name: str
    figure: str
    threshold: float
    above: bool
    within_ms: int
    by: str | None = None
    where: tuple[tuple[str, str], ...] = ()
    least: int = 1
    feedback: str = ""

    @property
    def tenant(self) -> str | None:
        """The tenant that it is limited to, "" for usage without any; None: all."""
        return dict(self.where).get("tenant")

    def now_on(self, measured: Iterable[Measured], known: Mapping[str, On], now: int) -> list[On]:
        """Return what is on at `now` (epoch ms). `known`: what was on before, by group, which stays on since then."""
        found = []
        for row in measured:
            before = known.get(row.group)
            if row.value is not None and self._beyond(row.value, row.count, is_on=before is not None):
                since = now if before is None else before.since
                found.append(On(self.name, row.group, since, now, {**self._data(row.group), "value": row.value}))
        return found

    def _beyond(self, value: float, count: int, *, is_on: bool) -> bool:
        margin = abs(self.threshold) * MARGIN if is_on else 0.0
        enough = count >= (1 if is_on else self.least)
        return enough and (value > self.threshold - margin if self.above else value < self.threshold + margin)

    def _data(self, group: str) -> dict[str, Any]:
        """Return what notices say of it, but for the value and the times."""
        return {
            "alert": self.name,
            "figure": self.figure,
            **({FEEDBACK: self.feedback} if self.feedback else {}),
            "above" if self.above else "below": self.threshold,
            "within_ms": self.within_ms,
            "of": {**dict(self.where), **({self.by: group} if self.by else {})},
        }


def parse(text: str) -> tuple[Alert, ...]:
    """Return the alerts of a JSON list of objects with KEYS; `name`, `figure`, `within`, `above` or `below` are needed.

    Raises ValueError, which names the wrong entry.
    """
    return entries(text, _alert, lambda alert: same_name(alert.name), "alerts", ALERTS)


def _alert(row: Any) -> Alert:
    if type(row) is not dict or row.keys() - {*KEYS}:
        raise ValueError(f"an object with {', '.join(KEYS)} is expected")
    name, figure, feedback = name_of(row), row.get("figure"), row.get(FEEDBACK, "")
    if figure not in FIGURES:
        raise ValueError(f"'figure' is any of {', '.join(FIGURES)}")
    if type(feedback) is not str or bool(feedback) != (figure == FEEDBACK):
        raise ValueError(f"'feedback' is the name of feedback, where 'figure' is {FEEDBACK}, and only there")
    threshold: Any = row.get("above", row.get("below"))
    if ("above" in row) == ("below" in row) or type(threshold) not in (int, float) or not abs(threshold) < 10**12:
        raise ValueError("either 'above' or 'below' is expected, a number")
    given = row.get("within")
    within = WITHIN.fullmatch(given) if type(given) is str else None
    within_ms = 0 if within is None else int(within[1]) * UNITS[within[2]]
    if not 0 < within_ms <= MAX_WITHIN_MS:
        raise ValueError("'within' is a time such as 15m, 1h or 7d, of at most 31 days")
    for dimension in DIMENSIONS:
        if type(row.get(dimension, "")) is not str:
            raise ValueError(f"{dimension!r} is a string; leave it out for all")
    by, least = row.get("by"), row.get("least", 1)
    if by is not None and (by not in DIMENSIONS or by in row):
        raise ValueError(f"'by' is any of {', '.join(DIMENSIONS)} to which it is not limited")
    if type(least) is not int or least < 1:
        raise ValueError("'least' is an integer, and at least 1")
    where = tuple((dimension, row[dimension]) for dimension in DIMENSIONS if dimension in row)
    return Alert(name, figure, threshold, "above" in row, within_ms, by, where, least, feedback)
