"""Options that several commands share."""

import re
from typing import Final

import click

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import AUTO
from pipeline.turns.times import epoch_ms
from turnmill.clock import now_ms

AGO: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

dialect_option: Final = click.option(
    "--dialect",
    default=AUTO,
    show_default=True,
    type=click.Choice([AUTO, *sorted(DIALECTS)]),
    help="Dialect of the files; auto: as FILE.run.json says, or as recognised by the first events.",
)


class Moment(click.ParamType):
    """ISO 8601 (UTC if without a time zone), or how long ago: 90s, 30m, 2h, 7d."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the time in epoch ms."""
        if isinstance(value, int):
            return value
        now = now_ms()
        if ago := AGO.fullmatch(str(value).strip()):
            return max(0, now - int(float(ago[1]) * UNIT_MS[ago[2]]))
        moment = now if value == "now" else epoch_ms(value)
        if moment is None:
            self.fail(f"{value!r} is no time: 2026-01-20T16:59:02Z, 2026-01-20 16:59, 2h (ago) or now is expected")
        return moment
