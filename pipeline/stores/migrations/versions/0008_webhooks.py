"""Webhooks of the API, and what waits to be delivered to them and to those of the settings."""

import sqlalchemy as sa
from alembic import op

from pipeline.stores.rights import grant_as

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLES = ("webhooks", "webhook_deliveries")


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", NAME, nullable=False),
        sa.Column("tenant", NAME),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("secrets", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("seq", ID, sa.Identity(), nullable=False),
        sa.Column("webhook", NAME, nullable=False),
        sa.Column("id", NAME, nullable=False),
        sa.Column("lane", NAME, nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("place", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.BigInteger()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("webhook", "id"),
    )
    op.create_index("webhook_deliveries_due", "webhook_deliveries", ["due"])
    op.create_index("webhook_deliveries_lane", "webhook_deliveries", ["webhook", "lane", "seq"])
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES:
            grant_as("erased", table)


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
