"""The wires that agents speak, one folder each. `turnmill.wire.registry` lists them."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final

from pipeline.assembly.dialect import Dialect, Format, Shown
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


def shown(dialect: str, event: Any) -> Sequence[Shown]:
    """Return the live text of an event; empty for an unknown wire or a malformed event."""
    known = DIALECTS.get(dialect)
    return known.shows(event) if known is not None else ()


def text_of(dialect: str, events: Iterable[Any]) -> str:
    """Return the text that these events add, without thoughts and tools."""
    return "".join(piece.text for event in events for piece in shown(dialect, event) if piece.kind == "text")
