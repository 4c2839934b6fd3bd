"""What the newest turn of a thread asks for, beside the turn and the thread."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

WAITING = sa.text("asked IS NOT NULL")
INDEXES = {
    "threads_waiting": ("updated_at", "thread_id"),
    "threads_tenant_waiting": ("tenant", "updated_at", "thread_id"),
}


def upgrade() -> None:
    for table in ("turns", "threads"):
        op.add_column(table, sa.Column("asked", sa.JSON()))
    for name, columns in INDEXES.items():
        op.create_index(name, "threads", list(columns), sqlite_where=WAITING, postgresql_where=WAITING)


def downgrade() -> None:
    for name in INDEXES:
        op.drop_index(name, "threads")
    for table in ("threads", "turns"):
        op.drop_column(table, "asked")
