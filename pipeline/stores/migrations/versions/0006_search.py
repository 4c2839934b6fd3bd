"""Searches: the words of each turn, and which turns have theirs. Those that are stored already follow in steps."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

from pipeline.stores.rights import grant_as

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WORDS = sa.Text().with_variant(TSVECTOR(), "postgresql")
UNSEARCHED = sa.text("searched IS NULL OR searched != substr(digest, 1, 16)")
# `ascii` takes every character beyond ASCII for a letter: the words are split already, by the spaces between them.
FTS5 = """
CREATE VIRTUAL TABLE said_words
USING fts5(words, content='said', content_rowid='id', tokenize='ascii', columnsize=0)
"""
# More parts of the index before they are merged: half the work of writing, and searches hardly notice.
MERGES = "INSERT INTO said_words(said_words, rank) VALUES ('automerge', 8)"
GOES = """
CREATE TRIGGER said_goes AFTER DELETE ON said BEGIN
    INSERT INTO said_words(said_words, rowid, words) VALUES ('delete', old.id, old.words);
END
"""


def upgrade() -> None:
    op.add_column("turns", sa.Column("searched", sa.Text()))
    op.add_column("turns", sa.Column("said", sa.BigInteger()))
    op.create_index("turns_said", "turns", ["said"], unique=True)
    op.create_index("turns_unsearched", "turns", ["started_at"], sqlite_where=UNSEARCHED, postgresql_where=UNSEARCHED)
    op.create_table(
        "said",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("words", WORDS, nullable=False),
        sa.ForeignKeyConstraint(["id"], ["turns.said"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    if op.get_bind().dialect.name == "postgresql":
        grant_as("erased", "said")
        op.create_index("said_tenant", "said", ["tenant", "id"])
        op.create_index("said_words", "said", ["words"], postgresql_using="gin")
    else:
        for statement in (FTS5, MERGES, GOES):
            op.execute(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.execute("DROP TABLE said_words")
    op.drop_table("said")
    op.drop_index("turns_unsearched", "turns")
    op.drop_index("turns_said", "turns")
    op.drop_column("turns", "said")
    op.drop_column("turns", "searched")
