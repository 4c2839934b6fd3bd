"""Read the secrets and certificates that settings name."""

import ssl
from pathlib import Path

from pydantic import BaseModel

from turnmill.errors import CallerError
from turnmill.settings import PREFIX


def secret(settings: BaseModel, name: str) -> str | None:
    """Return a secret: the variable's value, or the content of the file that `…_file` names, without its last line end.

    Return None if neither is set. Raises CallerError if the file can't be read or is empty, or if both are set.
    """
    value, path = getattr(settings, name), getattr(settings, f"{name}_file")
    if value is not None and path is not None:
        raise CallerError(f"{variable(name)} and {variable(f'{name}_file')} are both set: unset one")
    if value is not None:
        return str(value.get_secret_value())
    if path is None:
        return None
    try:
        text: str = path.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CallerError(f"{variable(f'{name}_file')}: {path} can't be read ({cause(error)})") from error
    if not text:
        raise CallerError(f"{variable(f'{name}_file')}: {path} is empty")
    return text


def trusting(ca_file: Path | None) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later, with these authorities (None: the system's). Raises CallerError."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise CallerError(
            f"{variable('ssl_ca_file')}: {ca_file} can't be used ({cause(error)}): a PEM file with the certificates "
            "of the authorities that sign the brokers', or the gateway's, is expected"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def cause(error: Exception) -> str:
    """Return the reason of an error, without the path that the system's message contains."""
    return str(getattr(error, "strerror", None) or error)
