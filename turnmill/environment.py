"""Read settings from environment variables; nothing else in an agent's process reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from turnmill.errors import CallerError, expectation

if TYPE_CHECKING:  # pydantic is loaded when settings are read
    from turnmill.settings import ClientSettings

    Kind = TypeVar("Kind", bound=ClientSettings)

SIMILARITY: Final = 0.9  # the similarity from which a variable is taken for a misspelling of ours


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> ClientSettings:
    """Read the environment. Raises CallerError that names each bad variable, and each that looks misspelt.

    Other variables with our prefix are the pipeline's: an agent may run in the same environment.
    """
    from turnmill.settings import ClientSettings  # noqa: PLC0415  # it is loaded when it is needed

    environ = os.environ if environ is None else environ
    return read(ClientSettings, environ, overrides, unknown(ClientSettings, environ, misspelt=True))


def unknown(kind: type[ClientSettings], environ: Mapping[str, str], *, misspelt: bool = False) -> list[str]:
    """Return an error for each of our variables that is no setting of this class; `misspelt`: that looks like one."""
    from difflib import get_close_matches  # noqa: PLC0415  # as above

    from turnmill.settings import PREFIX  # noqa: PLC0415  # as above

    ours = {PREFIX + name.upper() for name in kind.model_fields}
    return [
        f"{name} is no setting of Turnmill"
        + (f": is {alike[0]} meant?" if alike else "; `turnmill settings` lists them")
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in ours
        if (alike := get_close_matches(name, ours, 1, SIMILARITY)) or not misspelt
    ]


def read(kind: type[Kind], environ: Mapping[str, str], overrides: Mapping[str, Any], problems: list[str]) -> Kind:
    """Return settings of this class. Raises CallerError with `problems` and those of the values, a line each."""
    from pydantic import ValidationError  # noqa: PLC0415  # as above

    from turnmill.settings import PREFIX  # noqa: PLC0415

    values = {name: environ[PREFIX + name.upper()] for name in kind.model_fields if environ.get(PREFIX + name.upper())}
    settings = None
    try:
        settings = kind(**{**values, **overrides})
    except ValidationError as error:
        problems = problems + [
            f"{PREFIX}{str(e['loc'][0]).upper()}: {expectation(e)}{_got(kind, e)}"
            for e in error.errors(include_url=False)
        ]
    if settings is None or problems:
        raise CallerError("\n".join(problems))
    return settings


def _got(kind: type[ClientSettings], error: Mapping[str, Any]) -> str:
    """Return the given value for an error message; an empty text if it is a secret."""
    secret = "SecretStr" in str(kind.model_fields[error["loc"][0]].annotation) if error["loc"] else True
    if secret:
        return ""
    from turnmill.settings import without_password  # noqa: PLC0415  # as above

    text = str(error["input"])
    return f" (got {without_password(text) if '://' in text else text!r})"
