"""Notices that wait for their topic."""

import sqlalchemy as sa
from alembic import op

from pipeline.stores.rights import grant_as

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("id", NAME, nullable=False),
        sa.Column("due", sa.BigInteger()),
        sa.Column("keep_until", sa.BigInteger(), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("notices_due", "notices", ["due", "id"])
    if op.get_bind().dialect.name == "postgresql":
        grant_as("erased", "notices")


def downgrade() -> None:
    op.drop_table("notices")
