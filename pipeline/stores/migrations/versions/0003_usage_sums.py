"""Sums of usage: tables for them, and triggers that note what comes to `usage` and what goes, whoever writes it."""

# ruff: noqa: S608  # the names in these statements are this file's own

from typing import Any

import sqlalchemy as sa
from alembic import op

from pipeline.stores.rights import grant_as

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAMES = ("tenant", "model", "provider", "agent_id")
ONES = ("requests", "turns", "interrupted", "errors")
TOKENS = ("input_tokens", "output_tokens", "thinking_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens")
SUMMED = (*ONES, *TOKENS, "cost_nano_usd", "unpriced")
CHANGED = ("at", *NAMES, *ONES, *TOKENS, "cost_nano_usd", "ttft_ms", "duration_ms")
TABLES = ("usage_names", "usage_sums", "usage_changes", "usage_state")

# Trigger -> the operation, and the rows that it notes, with their sign.
TRIGGERS: dict[str, tuple[str, tuple[tuple[int, str], ...]]] = {
    "usage_added": ("INSERT", ((1, "new"),)),
    "usage_removed": ("DELETE", ((-1, "old"),)),
    "usage_replaced": ("UPDATE", ((-1, "old"), (1, "new"))),
}


def upgrade() -> None:
    op.create_table(
        "usage_names",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        *(sa.Column(name, NAME, nullable=name != "agent_id") for name in NAMES),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_table(
        "usage_sums",
        sa.Column("span", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("expired", sa.Boolean(), nullable=False),
        sa.Column("names", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in SUMMED),
        sa.Column("ttft", sa.Text(), nullable=False),
        sa.Column("duration", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["names"], ["usage_names.id"]),
        sa.PrimaryKeyConstraint("span", "names", "start", "expired"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "usage_changes",
        sa.Column("id", ID, sa.Identity(), nullable=False),
        sa.Column("sign", sa.Integer(), nullable=False),
        sa.Column("expired", sa.Boolean(), nullable=False),
        *(sa.Column(name, _type(name)) for name in CHANGED),
        sa.PrimaryKeyConstraint("id"),
    )
    state = op.create_table(
        "usage_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.Column("since", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.bulk_insert(state, [{"id": 1, "kept": True}])
    if op.get_bind().dialect.name == "postgresql":
        _postgres()
    else:
        _sqlite()


def _type(name: str) -> sa.types.TypeEngine[Any]:
    if name in NAMES:
        return NAME
    return sa.Integer() if name in ONES else sa.BigInteger()


def _postgres() -> None:
    """A trigger is called once for each statement."""
    columns = ", ".join(CHANGED)
    for trigger, (operation, signs) in TRIGGERS.items():
        notes = "; ".join(
            f"INSERT INTO usage_changes (sign, expired, {columns}) SELECT {sign}, false, {columns} FROM {rows}_rows"
            for sign, rows in signs
        )
        op.execute(
            f"CREATE FUNCTION {trigger}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF (SELECT kept FROM usage_state) THEN {notes}; END IF; RETURN NULL; END $$"
        )
        tables = " ".join(f"{rows.upper()} TABLE AS {rows}_rows" for _, rows in signs)
        op.execute(
            f"CREATE TRIGGER {trigger} AFTER {operation} ON usage REFERENCING {tables} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {trigger}()"
        )
    for table in TABLES:
        grant_as("usage", table)  # the older version's workers call the triggers, too


def _sqlite() -> None:
    """A trigger is called once for each row, also of one that a foreign key removes."""
    columns = ", ".join(CHANGED)
    for trigger, (operation, signs) in TRIGGERS.items():
        notes = " ".join(
            f"INSERT INTO usage_changes (sign, expired, {columns}) "
            f"VALUES ({sign}, 0, {', '.join(f'{rows}.{name}' for name in CHANGED)});"
            for sign, rows in signs
        )
        op.execute(
            f"CREATE TRIGGER {trigger} AFTER {operation} ON usage WHEN (SELECT kept FROM usage_state) BEGIN {notes} END"
        )


def downgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    for trigger in TRIGGERS:
        op.execute(f"DROP TRIGGER {trigger}" + (" ON usage" if postgres else ""))
        if postgres:
            op.execute(f"DROP FUNCTION {trigger}()")
    for table in ("usage_state", "usage_changes", "usage_sums", "usage_names"):
        op.drop_table(table)
