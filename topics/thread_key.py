"""Whose thread it is: its id and its tenant name a thread, since two tenants may choose, or guess, the same id."""

from __future__ import annotations

from typing import NamedTuple, Self


class ThreadKey(NamedTuple):
    """The name of one thread. `tenant` is None where there is none; the empty string counts as none, see `of`."""

    thread_id: str
    tenant: str | None = None

    @classmethod
    def of(cls, thread_id: str, tenant: str | None) -> Self:
        """Return the key of the ids that a record has."""
        return cls(thread_id, tenant or None)

    @property
    def text(self) -> str:
        """One string for both, different for each key: `ID` without a tenant, `ID/TENANT` with one.

        A UUID stands as it is; in other ids `/` and `%` are escaped, as in URLs.
        """
        name = self.thread_id.replace("%", "%25").replace("/", "%2F")
        return name if self.tenant is None else f"{name}/{self.tenant}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key that has this text."""
        name, slash, tenant = text.partition("/")
        return cls(name.replace("%2F", "/").replace("%25", "%"), tenant if slash else None)
