"""People in browsers: the cookie of a session, and the proof that a request comes from our own page.

A session is one of the store's tokens, with a role, and valid only in the cookie; so it is revoked like a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from pipeline.gateway.problems import Problem
from pipeline.policies.sign_in import Provider

SAFE: Final = frozenset({"GET", "HEAD"})
PROOF: Final = "x-turnmill"  # a header that no form can send, and no page of another origin may


class Cookie(str):
    """The secret of a session, as received in a cookie; in any other place it is not accepted."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class People:
    """The settings of signing in. `cookie`: name of the session's cookie; `mark`: of another that scripts can read."""

    origin: str
    providers: tuple[Provider, ...]
    cookie: str
    mark: str

    def presented(self, request: Request) -> Cookie | None:
        """Return a request's session cookie. Raises Problem, 403, if another site may have made the browser send it."""
        value = request.cookies.get(self.cookie)
        if not value:
            return None
        self.check(request.method, request.headers)
        return Cookie(value)

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise Problem unless our own page sent the request; reading is also allowed from a typed address."""
        site = headers.get("sec-fetch-site", "same-origin")
        ours = headers.get("origin", self.origin) == self.origin and site in ("same-origin", "none")
        if not ours or (method not in SAFE and (PROOF not in headers or "origin" not in headers)):
            raise Problem(
                "forbidden", "this request carries a session's cookie, and is not from the page of its gateway"
            )
