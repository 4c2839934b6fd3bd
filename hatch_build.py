"""What a wheel has beside the packages: the demo's recordings; and, where HATCH_BUILD_HOOKS_ENABLE is set, the compiled
core: without it a wheel is pure Python.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Where pipeline/cli/demo.py looks for them.
RECORDINGS = ("fleet", "wires", "weather.sse", "weather.sse.run.json")
PLACE = "pipeline/cli/examples"


class WheelParts(BuildHookInterface[Any]):
    """Puts the recordings into a wheel; and the extension modules with their stamp: then its name says for which Python
    it is. An editable install has neither: its checkout has the examples, and `make compile` alone compiles it.
    """

    def dependencies(self) -> list[str]:
        """What compiling needs, in the versions of uv.lock."""
        if not self._compiles():
            return []
        locked = Path(self.root, "uv.lock").read_text(encoding="utf-8")
        versions = dict(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', locked, re.MULTILINE))
        return [f"{name}=={versions[name]}" for name in self._core().NEEDS]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the recordings, where they are (the image is built without), and compile."""
        if version == "editable":
            return
        examples = Path(self.root, "examples")
        if examples.is_dir():
            build_data["force_include"] |= {str(examples / name): f"{PLACE}/{name}" for name in RECORDINGS}
        if not self._compiles():
            return
        self._folder = TemporaryDirectory()
        compiled, work = Path(self._folder.name, "compiled"), Path(self._folder.name, "work")
        made = self._core().compile_to(compiled, work)
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["force_include"] |= {str(compiled / path): path for path in made}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        if version != "editable" and self._compiles():
            self._folder.cleanup()

    def _compiles(self) -> bool:
        return bool(os.environ.get("HATCH_BUILD_HOOKS_ENABLE"))

    def _core(self) -> Any:
        if self.root not in sys.path:
            sys.path.insert(0, self.root)
        import compiled_core  # noqa: PLC0415  # it lies beside this file, which is loaded by its path

        return compiled_core
