"""The key of a thread: its id and its tenant, since two tenants may choose, or guess, the same id."""

from typing import NamedTuple, Self


class ThreadKey(NamedTuple):
    """The identity of a thread. `tenant` is None if there is none; the empty string counts as none, see `of`."""

    thread_id: str
    tenant: str | None = None

    @classmethod
    def of(cls, thread_id: str, tenant: str | None) -> Self:
        """Return the key for a record's thread_id and tenant."""
        return cls(thread_id, tenant or None)

    @property
    def text(self) -> str:
        """Both as one string, different for each key: `ID` without a tenant, `ID/TENANT` with one.

        A UUID is unchanged; in other ids `/` and `%` are escaped, as in URLs.
        """
        name = self.thread_id.replace("%", "%25").replace("/", "%2F")
        return name if self.tenant is None else f"{name}/{self.tenant}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key that has this text."""
        name, slash, tenant = text.partition("/")
        return cls(name.replace("%2F", "/").replace("%25", "%"), tenant if slash else None)
