"""`turnmill tokens`: the tokens in the store, which all its gateways accept."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from pipeline.cli.groups import Group
from pipeline.cli.running import load_running
from pipeline.cli.stored.selection import in_store, recorded
from pipeline.cli.stored.thread_view import plain
from pipeline.gateway.access.principal import SCOPES
from pipeline.gateway.access.token_table import hashed, made_token, networks, new_secret
from pipeline.observability.audit import audit, local_user, of
from pipeline.observability.logs import set_up
from pipeline.stores.accounts.tokens import add_token, all_tokens, revoke_token, rotate_token
from pipeline.stores.database.store import ThreadStore
from pipeline.turns.times import iso
from topics.catalog import DAY_MS
from turnmill.clock import now_ms
from turnmill.errors import CallerError

T = TypeVar("T")


@click.group(cls=Group)
def tokens() -> None:
    """Make, list, rotate and revoke tokens for gateways.

    The store keeps their hashes. A change takes effect on each of its gateways within a second.
    """


def _in_store(work: Callable[[ThreadStore], Awaitable[T]]) -> T:
    settings = load_running()
    set_up(settings.log_level, settings.log_format)
    return in_store(work)


@tokens.command()
@click.argument("name")
@click.option(
    "--scope", "scopes", multiple=True, type=click.Choice(SCOPES), default=("publish", "read"), show_default=True
)
@click.option("--tenant", help="Its tenant; without one, it may access all.")
@click.option("--days", type=click.IntRange(1, 36_500), help="Days after which it expires; by default never.")
@click.option("--rate", type=click.IntRange(1), help="Requests a second that it may make.")
@click.option("--from", "addresses", multiple=True, metavar="NETWORK", help="Where it may be used from: 10.0.0.0/8.")
def make(name: str, scopes: tuple[str, ...], tenant: str | None, days: int | None, **limits: Any) -> None:
    """Make a token for NAME, and print it once."""
    try:
        limits["addresses"] = networks(limits["addresses"])
    except ValueError as error:
        raise CallerError(f"--from: {error}") from None
    secret, expires = new_secret(), None if days is None else now_ms() + days * DAY_MS
    made = made_token(secret, name, scopes, tenant, by=local_user(), expires_at=expires, **limits)
    _in_store(lambda store: add_token(store, made))
    with recorded():
        audit.info("token %s %r made, by %s", made.id, name, local_user(), extra=of("token.make", made.id, tenant))
    click.echo(f"{made.id}, which is not shown again:", err=True)
    click.echo(secret)


@tokens.command("list")
def list_() -> None:
    """List tokens, oldest first, without their secrets."""
    now = now_ms()
    for token in _in_store(all_tokens):
        until = "for ever" if token.expires_at is None else f"until {iso(token.expires_at)}"
        until = until if token.is_good(now) else "expired"
        scopes = ",".join(token.scopes) if token.thread is None else f"link to {plain(token.thread)}"
        used = "never used" if token.used_at is None else f"used {iso(token.used_at)}"
        everybody = "all tenants" if token.thread is None else "no tenant"
        tenant = everybody if token.tenant is None else f"tenant {plain(token.tenant)}"
        click.echo(f"{token.id}  {plain(token.name)}  {scopes}  {tenant}  {until}  {used}")


@tokens.command()
@click.argument("token_id", metavar="ID")
@click.option(
    "--overlap", type=click.IntRange(0), default=DAY_MS // 1000, show_default=True, help="Seconds that both are valid."
)
def rotate(token_id: str, overlap: int) -> None:
    """Give a token a new secret, and print it once.

    The old secret stays valid for a while.
    """
    secret, now = new_secret(), now_ms()
    token = _in_store(lambda store: rotate_token(store, token_id, hashed(secret), now, now + overlap * 1000))
    if token is None:
        raise _unknown(token_id)
    with recorded():
        audit.info("token %s rotated, by %s", token_id, local_user(), extra=of("token.rotate", token_id, token.tenant))
    click.echo(secret)


@tokens.command()
@click.argument("token_id", metavar="ID")
def revoke(token_id: str) -> None:
    """Revoke a token: within a second, no gateway accepts it."""
    if not _in_store(lambda store: revoke_token(store, token_id)):
        raise _unknown(token_id)
    with recorded():
        audit.info("token %s revoked, by %s", token_id, local_user(), extra=of("token.revoke", token_id))
    click.echo(f"{token_id} is revoked")


def _unknown(token_id: str) -> CallerError:
    return CallerError(f"there is no token {token_id!r:.200}: `turnmill tokens list` names those that there are")
