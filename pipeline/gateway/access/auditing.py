"""Audit entries that the gateway writes for refused requests and for exports; routes write those of changes.

Both are logged once a minute for the same caller and place, and only if the store keeps entries.
"""

from __future__ import annotations

from fastapi import Request

from pipeline.gateway.access.security import Admission, admission_of
from pipeline.observability.audit import REFUSED, Actor, acting, audit, of
from turnmill.clock import now_ms


def refused(request: Request) -> None:
    """Log a refused request. One without credentials is not logged: each page load begins with such a request."""
    admission = admission_of(request)
    actor, people = acting.get(), admission.authenticator.people
    named = "authorization" in request.headers or (people is not None and people.cookie in request.cookies)
    if admission.trail is None or (actor is None and not named):
        return
    actor = actor or begun(admission, request)
    what = f"{request.method} {getattr(request.scope.get('route'), 'path', request.url.path)}"
    if admission.trail.is_new(now_ms(), ("line", actor, what)):
        audit.warning(
            "%s refused, to %r at %s", what, actor.name, actor.address, extra=of("refused", what, actor.tenant, REFUSED)
        )


def begun(admission: Admission, request: Request, name: str = "", token: str = "", tenant: str | None = None) -> Actor:
    """Set and return the actor of this request, where no token identifies one."""
    keep = None if admission.trail is None else admission.trail.keep
    actor = Actor(name, token, request.client.host if request.client else "", tenant, keep)
    acting.set(actor)
    return actor


def read_out(admission: Admission, action: str, subject: str, tenant: str | None) -> None:
    """Log that the caller exported data from the gateway."""
    actor = acting.get()
    if admission.trail is not None and actor is not None and admission.trail.is_new(now_ms(), (actor, action, subject)):
        audit.info("%s of %r, by %r", action, subject, actor.name, extra=of(action, subject, tenant))
