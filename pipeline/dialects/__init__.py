"""The wires that agents speak, one folder each. `turnmill.wire.registry` lists them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.assembly.format import Format
from pipeline.dialects.control import with_control
from turnmill.wire.registry import WIRES


def package_of(name: str) -> str:
    """Return the package of a wire's dialect: "vercel-ai" -> "pipeline.dialects.vercel_ai"."""
    return f"{__name__}.{name.replace('-', '_')}"


DIALECTS: Final[dict[str, Dialect]] = {name: with_control(import_module(package_of(name)).DIALECT) for name in WIRES}

_FORMATS = [form for dialect in DIALECTS.values() for form in dialect.formats]
# Whole documents first, then messages, by name.
FORMATS: Final[dict[str, Format]] = {
    form.name: form for form in sorted(_FORMATS, key=lambda form: (not form.is_document, form.name))
}
