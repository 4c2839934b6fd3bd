"""The environment in which a program's Pythons capture its model calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SITE: Final = str(Path(__file__).parent / "site")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the folder of our `sitecustomize` first in PYTHONPATH."""
    folders = [folder for folder in variables.get("PYTHONPATH", "").split(os.pathsep) if folder not in ("", SITE)]
    return {**variables, "PYTHONPATH": os.pathsep.join([SITE, *folders])}
