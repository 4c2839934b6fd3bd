"""A suite as tables for people and as JSON for scripts, with what it was measured on."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from pipeline.bench.contenders import CONTENDERS, LIMIT, STOCK
from pipeline.bench.suite import Suite

PACKAGES: Final = ("threadmill", "faust-streaming", "aiokafka", "orjson", "uvloop")


def conditions() -> dict[str, Any]:
    """Machine, versions, command; `load` is the machine's average of the last minute: others may have used it, too."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "load": round(os.getloadavg()[0], 2),
        "command": " ".join(["threadmill", *sys.argv[1:]]),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def as_json(suite: Suite, where: dict[str, Any]) -> dict[str, Any]:
    """-> {conditions, assembly: [...], loads: [{..., contenders: [{name, rates, rate, of_raw, of_faust}]}]}."""
    return {
        "conditions": where,
        "assembly": [
            {"dialect": row.dialect, "load": row.load, "json": row.json_rate, "assembly": row.assembly_rate}
            for row in suite.assembly
        ],
        "loads": [
            {
                "name": result.load.name,
                "title": result.load.title,
                "events": result.load.events,
                "runs": result.load.runs,
                "contenders": [
                    {
                        "name": name,
                        "title": contender.title,
                        "rates": result.rates[name],
                        "rate": result.rate(name),
                        "of_raw": result.ratio(name, LIMIT),
                        "of_faust": result.ratio(name, STOCK),
                    }
                    for name, contender in CONTENDERS.items()
                ],
            }
            for result in suite.results
        ],
    }


def show(suite: Suite, where: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    packages = ", ".join(f"{name} {number}" for name, number in where["packages"].items())
    console.print(f"{where['cpu']}, {where['cores']} cores; {where['system']}; Python {where['python']}; {packages}")
    console.print(f"{where['command']}; load average before: {where['load']}\n")
    for result in suite.results:
        table = Table(
            "", "events/s", "of the raw read", "of stock Faust", title=result.load.title, title_justify="left"
        )
        for name, contender in CONTENDERS.items():
            ratios = f"{result.ratio(name, LIMIT):.2f}", f"{result.ratio(name, STOCK):.1f} ×"
            table.add_row(contender.title, f"{result.rate(name):,.0f}", *ratios)
        console.print(table)
    table = Table("dialect", "load", "assembly, events/s", "of orjson.loads alone", title="Assembly in process")
    for row in suite.assembly:
        table.add_row(row.dialect, row.load, f"{row.assembly_rate:,.0f}", f"{row.assembly_rate / row.json_rate:.2f}")
    console.print(table)
