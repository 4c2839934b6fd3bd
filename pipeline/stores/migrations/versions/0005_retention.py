"""Retention: threads that are held, and what is left to be removed of threads that have expired."""

import sqlalchemy as sa
from alembic import op

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
        sa.Column("older", sa.JSON(), nullable=False),
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
            _grant_as("erased", table)


def _grant_as(known: str, table: str) -> None:
    """Whoever may write the one may write the other."""
    rights = sa.text(
        "SELECT grantee, string_agg(privilege_type, ', ') FROM information_schema.role_table_grants "
        "WHERE table_schema = current_schema() AND table_name = :known AND grantee <> current_user "
        "AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') GROUP BY grantee"
    )
    bind = op.get_bind()
    for grantee, privileges in bind.execute(rights, {"known": known}).all():
        role = "PUBLIC" if grantee == "PUBLIC" else bind.dialect.identifier_preparer.quote(grantee)
        op.execute(f"GRANT {privileges} ON {table} TO {role}")


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
