"""Write kafka.jars, after a change of pom.xml: python -m pipeline.devbroker.pin_kafka (needs Maven).

The pom's dependencies have further dependencies. Maven resolves them only here; everywhere else exactly these are used.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pipeline.devbroker.jars import PINS, POM
from pipeline.devbroker.maven import LAYOUT, copy_jars
from pipeline.devbroker.pinned_files import Pinned, digest, render
from pipeline.settings import load


def main() -> None:
    """Resolve the jars and write kafka.jars."""
    with tempfile.TemporaryDirectory() as folder:
        libs = Path(folder) / "libs"
        copy_jars(load().cache_folder, POM, libs, LAYOUT)
        jars = {str(jar.relative_to(libs)): jar for jar in libs.rglob("*.jar")}
        pinned = [Pinned(name, jar.stat().st_size, digest(jar)) for name, jar in sorted(jars.items())]
    PINS.write_text(render(pinned), encoding="utf-8")


if __name__ == "__main__":
    main()
