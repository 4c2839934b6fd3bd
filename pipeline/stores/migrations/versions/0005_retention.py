"""Retention: threads that are held, and what is left to be removed of threads that have expired."""

import sqlalchemy as sa
from alembic import op

from pipeline.stores.rights import grant_as

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TABLES = ("holds", "expired", "expiry_state")


def upgrade() -> None:
    op.create_table(
        "holds",
        sa.Column("thread_id", NAME, nullable=False),
        sa.Column("name", sa.JSON(), nullable=False),
        sa.Column("held_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("thread_id"),
    )
    op.create_table(
        "expired",
        sa.Column("thread_id", NAME, nullable=False),
        sa.Column("name", sa.JSON(), nullable=False),
        sa.Column("before", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("thread_id"),
    )
    op.create_index("expired_due", "expired", ["due", "thread_id"])
    state = op.create_table(
        "expiry_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.bulk_insert(state, [{"id": 1, "holder": "", "until": 0}])
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES:
            grant_as("erased", table)


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
