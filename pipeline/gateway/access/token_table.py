"""Tokens: how they are made, and those of the settings or of a file.

Tokens are random, so storing a plain SHA-256 of them is safe.
"""

import contextlib
import hashlib
import ipaddress
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from pipeline.gateway.access.principal import Principal, Scope
from pipeline.stores.accounts.tokens import ID_BEGINS, Token
from turnmill.clock import now_ms
from turnmill.errors import CallerError, expectation

PREFIX: Final = "tm_"  # so that secret scanners recognise our tokens
VARIABLE: Final = "TURNMILL_GATEWAY_TOKENS"

Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Tenant = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class TokenLine(BaseModel, extra="forbid", frozen=True):
    """One token, as in the settings or the token file."""

    name: Name
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    tenant: Tenant | None = None


def new_secret() -> str:
    """Return a new token of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def made_token(
    secret: str,
    name: str,
    scopes: Iterable[str],
    tenant: str | None,
    *,
    by: str,
    expires_at: int | None = None,
    rate: int | None = None,
    addresses: Sequence[str] = (),
) -> Token:
    """Return a new token as the store keeps it."""
    return Token(
        id=f"{ID_BEGINS}{secrets.token_hex(8)}",
        digest=hashed(secret),
        name=name,
        tenant=tenant,
        scopes=tuple(sorted(set(scopes))),
        made_by=by,
        made_at=now_ms(),
        rate=rate,
        addresses=tuple(addresses),
        expires_at=expires_at,
    )


def networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Return networks in their usual form. Raises ValueError."""
    return tuple(str(ipaddress.ip_network(text.strip())) for text in texts)


def is_within(inner: Iterable[str], outer: Sequence[str]) -> bool:
    """Return True if each network or address of `inner` lies in one of `outer`, or if `outer` is empty."""
    around = [ipaddress.ip_network(text) for text in outer]
    return not around or all(
        # mypy doesn't see that both networks are of one IP version.
        any(network.version == other.version and network.subnet_of(other) for other in around)  # type: ignore[arg-type]  # same version
        for network in map(ipaddress.ip_network, inner)
    )


def new_token(name: str, scopes: tuple[Scope, ...], tenant: str | None) -> tuple[str, TokenLine]:
    """Return a new token of 256 random bits, and its line for the token file."""
    token = new_secret()
    return token, TokenLine(name=name, sha256=hashed(token), scopes=scopes, tenant=tenant)


def hashed(token: str) -> str:
    """Return the SHA-256, in hexadecimal digits."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def parse_tokens(text: str, source: str) -> dict[str, Principal]:
    """Return the principals of JSON lines, by hash. Raises CallerError that names the line without showing it."""
    principals: dict[str, Principal] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            token = TokenLine.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise CallerError(
                f"{source}, line {number}: {where + ': ' if where else ''}{expectation(first)}; "
                "`turnmill gateway token` makes such a line"
            ) from None
        if token.sha256 in principals:
            raise CallerError(f"{source}, line {number}: this token is there twice")
        principals[token.sha256] = Principal(token.name, frozenset(token.scopes), token.tenant)
    return principals


class TokenTable:
    """The tokens of TURNMILL_GATEWAY_TOKENS. A changed file is read again; if it is broken, the old tokens stay."""

    def __init__(self, setting: str) -> None:
        """Read the tokens of `setting`: JSON lines, or the path of a file of them. Raises CallerError."""
        self._path = None if setting.lstrip().startswith("{") else Path(setting)
        self._stamp: object = None
        self._tokens = parse_tokens(setting, VARIABLE) if self._path is None else {}
        if self._path is not None:
            self._load(self._path)
        if not self._tokens:
            raise CallerError(f"{VARIABLE} holds no token: `turnmill gateway token` makes one")

    def find(self, token: str) -> Principal | None:
        """Return the owner of this token.

        It is looked up by hash, so the time that takes reveals nothing about other tokens.
        """
        return self._current().get(hashed(token))

    def reads(self, name: str, tenant: str | None) -> bool:
        """Return whether a token of this name may read the threads of a tenant; None: those without a tenant."""
        named = (owner for owner in self._current().values() if owner.name == name and "read" in owner.scopes)
        return any(owner.tenant in (None, tenant) for owner in named)

    def _current(self) -> dict[str, Principal]:
        if self._path is not None:
            with contextlib.suppress(CallerError):  # the previous tokens stay valid
                self._load(self._path)
        return self._tokens

    def _load(self, path: Path) -> None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._stamp:
                return
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8"
            raise CallerError(f"{VARIABLE}: {path} can't be read: {why}") from None
        self._stamp = stamp
        self._tokens = parse_tokens(text, str(path))
