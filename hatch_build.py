"""Compiles the core for wheels, where HATCH_BUILD_HOOKS_ENABLE is set; without it they are pure Python."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledCore(BuildHookInterface[Any]):
    """Puts the extension modules and their stamp into a wheel, whose name then says for which Python it is."""

    def dependencies(self) -> list[str]:
        """What compiling needs, in the versions of uv.lock."""
        locked = Path(self.root, "uv.lock").read_text(encoding="utf-8")
        versions = dict(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', locked, re.MULTILINE))
        return [f"{name}=={versions[name]}" for name in self._core().NEEDS]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, but not for an editable install: a checkout is compiled by `make compile` alone."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory()
        compiled, work = Path(self._folder.name, "compiled"), Path(self._folder.name, "work")
        made = self._core().compile_to(compiled, work)
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["force_include"] |= {str(compiled / path): path for path in made}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        if version != "editable":
            self._folder.cleanup()

    def _core(self) -> Any:
        if self.root not in sys.path:
            sys.path.insert(0, self.root)
        import compiled_core  # noqa: PLC0415  # it lies beside this file, which is loaded by its path

        return compiled_core
