"""Saved views: an address of the dashboard with its filters, for its owner or for their tenant."""

from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, delete, func, insert, select

from pipeline.stores.database.schema import views
from pipeline.stores.database.store import ThreadStore
from pipeline.turns.column_text import column_text


@dataclass(frozen=True, slots=True)
class View:
    """A saved view; `owner`: a token's or a person's name; `tenant`: theirs, None for all. `made_at`: epoch ms.

    `identity`: the owner's, since names may be equal.
    """

    id: str
    owner: str
    tenant: str | None
    name: str
    address: str
    shared: bool
    made_at: int
    identity: str


async def views_of(store: ThreadStore, identity: str, tenant: str | None) -> list[View]:
    """Return an owner's views, and those that their tenant shares, by name."""
    may = (views.c.identity == identity) | views.c.shared
    query = select(views).where(_of(tenant), may).order_by(views.c.name, views.c.id)
    return [View(*row) for row in await store.rows(query)]


async def add_view(store: ThreadStore, view: View, most: int) -> bool:
    """Store a new view; return False if its tenant has `most` of them."""
    count = select(func.count()).select_from(views).where(_of(view.tenant))
    async with store.writing() as connection:
        if (await connection.scalar(count) or 0) >= most:
            return False
        texts = {name: column_text(getattr(view, name)) for name in ("owner", "tenant", "name")}
        await connection.execute(insert(views), [asdict(view) | texts])
        return True


async def drop_view(store: ThreadStore, view_id: str) -> None:
    """Delete a view."""
    await store.change(delete(views).where(views.c.id == view_id))


async def forget_views(store: ThreadStore, tenant: str) -> None:
    """Delete the views of a tenant."""
    await store.change(delete(views).where(_of(tenant)))


def _of(tenant: str | None) -> ColumnElement[bool]:
    return views.c.tenant.is_(None) if tenant is None else views.c.tenant == column_text(tenant)
