"""Where things are: the folder of the project, and what was downloaded for it."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "turnmill"
