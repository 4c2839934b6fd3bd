"""The first schema: threads, turns, agents, links, usage; what was erased; which code fits."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", NAME, nullable=False),
        sa.Column("external_id", NAME),
        sa.Column("tenant", NAME),
        sa.Column("title", sa.Text()),
        sa.Column("prompt", sa.Text()),
        sa.Column("status", sa.Text()),
        sa.Column("turns", sa.Integer(), server_default="0", nullable=False),
        sa.Column("total_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated_at", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("thread_id"),
    )
    op.create_index("threads_external", "threads", ["external_id"])
    op.create_index("threads_tenant_updated", "threads", ["tenant", "updated_at", "thread_id"])
    op.create_index("threads_updated", "threads", ["updated_at", "thread_id"])
    op.create_table(
        "turns",
        sa.Column("turn_id", NAME, nullable=False),
        sa.Column("thread_id", NAME, nullable=False),
        sa.Column("run_id", NAME, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("role", sa.Integer(), nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("tenant", NAME),
        sa.Column("dialect", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("interruption", sa.Text()),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.Column("hash", sa.Text()),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("external_id", NAME),
        sa.Column("title", sa.Text()),
        sa.Column("prompt", sa.Text()),
        sa.Column("facts", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True)),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_id", "thread_id"),
    )
    op.create_index("turns_order", "turns", ["thread_id", "started_at", "role", "run_id", "ordinal", "turn_id"])
    op.create_table(
        "agents",
        sa.Column("turn_id", NAME, nullable=False),
        sa.Column("thread_id", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("agent_name", sa.Text()),
        sa.ForeignKeyConstraint(["turn_id", "thread_id"], ["turns.turn_id", "turns.thread_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_id", "thread_id", "agent_id"),
    )
    op.create_index("agents_agent", "agents", ["agent_id", "thread_id"])
    op.create_index("agents_thread", "agents", ["thread_id"])
    op.create_table(
        "links",
        sa.Column("turn_id", NAME, nullable=False),
        sa.Column("thread_id", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("source", NAME, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("relation", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id", "thread_id"], ["turns.turn_id", "turns.thread_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_id", "thread_id", "position"),
    )
    op.create_index("links_source", "links", ["source"])
    op.create_index("links_target", "links", ["target"])
    op.create_table(
        "usage",
        sa.Column("turn_id", NAME, nullable=False),
        sa.Column("thread_id", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("tenant", NAME),
        sa.Column("model", NAME),
        sa.Column("provider", NAME),
        sa.Column("finish_reason", NAME),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("interrupted", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger()),
        sa.Column("output_tokens", sa.BigInteger()),
        sa.Column("thinking_tokens", sa.BigInteger()),
        sa.Column("cache_read_tokens", sa.BigInteger()),
        sa.Column("cache_write_tokens", sa.BigInteger()),
        sa.Column("total_tokens", sa.BigInteger()),
        sa.Column("cost_nano_usd", sa.BigInteger()),
        sa.Column("price_source", sa.Text()),
        sa.Column("ttft_ms", sa.BigInteger()),
        sa.Column("duration_ms", sa.BigInteger()),
        sa.ForeignKeyConstraint(["turn_id", "thread_id"], ["turns.turn_id", "turns.thread_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_id", "thread_id", "position"),
    )
    op.create_index("usage_at", "usage", ["at"])
    op.create_index("usage_tenant_at", "usage", ["tenant", "at"])
    op.create_index("usage_thread", "usage", ["thread_id"])
    op.create_table(
        "erased",
        sa.Column("thread_id", NAME, nullable=False),
        sa.Column("erased_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("thread_id"),
    )
    compatibility = op.create_table(
        "compatibility", sa.Column("oldest", NAME, nullable=False), sa.PrimaryKeyConstraint("oldest")
    )
    op.bulk_insert(compatibility, [{"oldest": revision}])


def downgrade() -> None:
    for table in ("compatibility", "erased", "usage", "links", "agents", "turns", "threads"):
        op.drop_table(table)
