"""Who calls, with which scopes and for which tenant.

A principal with a tenant can access that tenant's threads and nothing else. Without a tenant, it can access all
threads: if there are several tenants, bind every token to its tenant.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, get_args

from pipeline.gateway.problems import Problem

Scope = Literal["publish", "feedback", "read", "control", "admin"]
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
OF_SETTINGS: Final = "settings"  # before the names of such tokens, as makers of links
MEANING: Final = {
    "publish": "send runs",
    "feedback": "say what you think of threads, save views, fill data sets",
    "read": "read threads, live streams and usage",
    "control": "stop, steer and answer runs",
    "admin": "delete and hold threads, read dead letters",
}


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. With `tenant` None, all tenants are accessible.

    For a token of the store: its id, its `rate` of requests a second, when it expires (epoch ms), and the networks
    that it may be used from. `subject`: the issuer and the id there of somebody who has signed in, or whose token a
    provider has signed. `ends`: when the caller's token, session or signed token does, if it has an end (epoch ms).
    """

    name: str
    scopes: frozenset[str]
    tenant: str | None = None
    limited: bool = True  # by the rate limit
    id: str = ""
    rate: int | None = None
    expires_at: int | None = None
    addresses: tuple[str, ...] = ()
    subject: tuple[str, str] | None = None
    ends: int | None = None

    @property
    def text(self) -> str:
        """The name in the audit log."""
        return f"{self.name!r} of tenant {self.tenant!r}"

    @property
    def maker(self) -> str | None:
        """The token's id or name, which a link keeps; None for a signed token: the gateway can't revoke those."""
        return self.id or (None if self.subject else f"{OF_SETTINGS}/{self.name}")

    @property
    def caller(self) -> tuple[str | None, str]:
        """The key by which requests are counted; two tenants may have tokens of the same name."""
        return self.tenant, self.id or self.name

    @property
    def identity(self) -> str:
        """The caller's key: callers of the same name differ in it; a new sign-in or a rotated token keeps it."""
        said = "\n".join(self.subject or ("token", self.id or self.name))
        return sha256(said.encode("utf-8", "replace")).hexdigest()[:32]

    def bounded(self, asked: str | None) -> str | None:
        """Return the tenant that a query is limited to, None for all. Raises Problem if another one is asked for."""
        if self.tenant is None or asked in (None, self.tenant):
            return self.tenant or asked
        raise Problem("forbidden", f"this token is bound to its own tenant: leave out tenant={asked!r:.80}")


ANONYMOUS: Final = Principal("anonymous", frozenset(SCOPES), limited=False)
