"""Threads by id and tenant: finds the rows of the version before, and tells its erased marks from those of this one."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

OLDER = sa.text("tenant IS NOT NULL AND thread_id NOT LIKE '%/%'")


def upgrade() -> None:
    op.add_column("erased", sa.Column("exact", sa.Boolean()))
    op.create_index("threads_older", "threads", ["thread_id"], sqlite_where=OLDER, postgresql_where=OLDER)


def downgrade() -> None:
    op.drop_index("threads_older", "threads")
    op.drop_column("erased", "exact")
