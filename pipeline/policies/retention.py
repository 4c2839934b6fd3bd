"""The retention of threads in the store: `90d`, or by tenant, `90d,acme=30d,globex=forever`. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from topics.catalog import DAY_MS

FOREVER: Final = "forever"
DURATION: Final = re.compile(r"([0-9]{1,6})d")


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention in ms; None: for ever. `tenants`: for tenants with their own; the empty name stands for no tenant."""

    default: int | None = None
    tenants: Mapping[str, int | None] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a retention. Raises ValueError, which says what is wrong."""
        default: int | None = None
        tenants: dict[str, int | None] = {}
        for number, part in enumerate(item.strip() for item in text.split(",")):
            name, equals, duration = part.rpartition("=")
            if not equals and number:
                raise ValueError(f"{part!r}: behind the first comma TENANT=DURATION is expected, as acme=30d")
            if name.strip() in tenants:
                raise ValueError(f"the tenant {name.strip()!r} is there twice")
            if equals:
                tenants[name.strip()] = _duration(duration.strip())
            else:
                default = _duration(duration)
        return cls(default, tenants)

    @property
    def bounded(self) -> bool:
        """True if any thread expires at all."""
        return self.default is not None or any(days is not None for days in self.tenants.values())

    def of(self, tenant: str | None) -> int | None:
        """Return how long the threads of a tenant are kept."""
        return self.tenants.get(tenant or "", self.default)

    def begin(self, tenant: str | None, now: int) -> int | None:
        """Return the time before which turns have expired, in epoch ms; None if nothing expires."""
        kept = self.of(tenant)
        return None if kept is None else now - kept

    def expired(self, tenant: str | None, ended_at: int, now: int) -> bool:
        """Return True if a turn that ended at `ended_at` has expired. With an unknown time (0) it never expires."""
        begin = self.begin(tenant, now)
        return begin is not None and 0 < ended_at < begin


def _duration(text: str) -> int | None:
    if text == FOREVER:
        return None
    match = DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is no duration: days, as 90d, or {FOREVER} is expected")
    return int(match[1]) * DAY_MS
