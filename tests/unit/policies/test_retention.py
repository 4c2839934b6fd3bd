"""How long threads are kept, as the setting says it."""

from typing import Any

import pytest

from pipeline.policies.retention import DAY_MS, Retention
from pipeline.settings import load
from turnmill.errors import CallerError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90d", Retention(90 * DAY_MS)),
        ("forever", Retention()),
        ("90d, acme=30d,globex = forever", Retention(90 * DAY_MS, {"acme": 30 * DAY_MS, "globex": None})),
        ("acme=1d", Retention(None, {"acme": DAY_MS})),
        ("=30d", Retention(None, {"": 30 * DAY_MS})),
        ("a=b=2d", Retention(None, {"a=b": 2 * DAY_MS})),
    ],
)
def test_it_is_read(text: str, expected: Any) -> None:
    assert load({"TURNMILL_STORE_RETENTION": text}).kept_for == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("90", "'90' is no duration: days, as 90d, or forever"),
        ("0d", "'0d' is no duration"),
        ("acme=", "'' is no duration"),
        ("90d,30d", "TENANT=DURATION is expected"),
        ("90d,acme=30d,acme=1d", "'acme' is there twice"),
        ("acme=30d,90d", "behind the first comma"),
        ("-1d", "no duration"),
    ],
)
def test_what_is_wrong_is_said(text: str, why: str) -> None:
    with pytest.raises(CallerError, match="TURNMILL_STORE_RETENTION") as error:
        load({"TURNMILL_STORE_RETENTION": text})
    assert why in str(error.value)


def test_by_default_nothing_expires() -> None:
    kept = load({}).kept_for
    assert not kept.bounded
    assert not kept.expired(None, 1, 10**15)


def test_each_tenant_has_its_own_time() -> None:
    kept = Retention.parse("10d,acme=2d,globex=forever")
    now = 1000 * DAY_MS
    assert kept.bounded
    for tenant, days in ((None, 10), ("other", 10), ("acme", 2)):
        assert not kept.expired(tenant, now - days * DAY_MS, now)
        assert kept.expired(tenant, now - days * DAY_MS - 1, now)
    assert not kept.expired("globex", 1, now)
    assert not kept.expired("acme", 0, now), "nobody knows when that was"
