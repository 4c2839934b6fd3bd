"""Install the hooks of HTTP libraries: at once if the program has imported a library, else when it does."""

import importlib.util
import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

HOOKS: Final = {  # library -> the module with its hook
    "aiohttp": "turnmill.capture.hooks.aiohttp",
    "botocore.httpsession": "turnmill.capture.hooks.requests",
    "httpx": "turnmill.capture.hooks.httpx",
    "httpx2": "turnmill.capture.hooks.httpx",
    "requests": "turnmill.capture.hooks.requests",
}

log = logging.getLogger("turnmill.capture")


def install() -> None:
    """Install hooks in libraries that are imported, or will be; a second call changes nothing."""
    for name in HOOKS:
        module = sys.modules.get(name)
        if module is not None:
            hook(name, module)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def hook(name: str, module: ModuleType) -> None:
    """Install the hook of a library; a release with different internals is left unchanged."""
    try:
        import_module(HOOKS[name]).install(module)
    except Exception:
        log.exception("%s: its requests are not captured", name)


class _Finder(MetaPathFinder):
    """Lets the other finders find a library, and hooks the library after it was executed."""

    def __init__(self) -> None:
        self._finding: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in HOOKS or fullname in self._finding:
            return None
        self._finding.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._finding.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Hooking(fullname, spec.loader)
        return spec


class _Hooking(Loader):
    """Runs a library's loader, then our hook. The module keeps its own loader."""

    def __init__(self, name: str, loader: Loader) -> None:
        self._name, self._loader = name, loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        hook(self._name, module)
