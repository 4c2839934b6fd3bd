"""The baseline: the tables of `stores.database.schema`, the counter of turns, triggers, and SQLite's index of words.

Until the first release the baseline itself is edited. The release copies its tables here, and each later change of the
schema is a migration of its own.
"""

# ruff: noqa: S608  # the names in these statements are this file's own

from alembic import op

from pipeline.stores.database.ids import COUNTER
from pipeline.stores.database.schema import CHANGED, compatibility, expiry_state, metadata, usage_state

revision = "1001"
down_revision = None
branch_labels = None
depends_on = None

# Trigger -> the operation, and the rows that it notes, with their sign.
TRIGGERS: dict[str, tuple[str, tuple[tuple[int, str], ...]]] = {
    "usage_added": ("INSERT", ((1, "new"),)),
    "usage_removed": ("DELETE", ((-1, "old"),)),
    "usage_replaced": ("UPDATE", ((-1, "old"), (1, "new"))),
}
COLUMNS = ", ".join(CHANGED)
SQLITE = (
    f"CREATE TABLE {COUNTER} (last INTEGER NOT NULL)",
    f"INSERT INTO {COUNTER} VALUES (0)",
    # `ascii` treats every non-ASCII character as a letter: the words are split already, by the spaces between them.
    (
        "CREATE VIRTUAL TABLE turn_words_index "
        "USING fts5(words, content='turn_words', content_rowid='id', tokenize='ascii', columnsize=0)"
    ),
    # More parts of the index before they are merged: half the work of writing, and searches are hardly slower.
    "INSERT INTO turn_words_index(turn_words_index, rank) VALUES ('automerge', 8)",
    (
        "CREATE TRIGGER turn_words_removed AFTER DELETE ON turn_words BEGIN "
        "INSERT INTO turn_words_index(turn_words_index, rowid, words) VALUES ('delete', old.id, old.words); END"
    ),
)


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    metadata.create_all(op.get_bind())
    op.bulk_insert(usage_state, [{"id": 1, "kept": True}])
    op.bulk_insert(expiry_state, [{"id": 1, "holder": "", "until": 0}])
    op.bulk_insert(compatibility, [{"oldest": revision}])
    for statement in (f"CREATE SEQUENCE {COUNTER}",) if postgres else SQLITE:
        op.execute(statement)
    for trigger in TRIGGERS:
        (_postgres if postgres else _sqlite)(trigger)


def _postgres(trigger: str) -> None:
    """Make a trigger that is called once for each statement."""
    operation, signs = TRIGGERS[trigger]
    notes = "; ".join(
        f"INSERT INTO usage_changes (sign, expired, {COLUMNS}) SELECT {sign}, false, {COLUMNS} FROM {rows}_rows"
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


def _sqlite(trigger: str) -> None:
    """Make a trigger that is called once for each row, also for rows deleted by a foreign key."""
    operation, signs = TRIGGERS[trigger]
    notes = " ".join(
        f"INSERT INTO usage_changes (sign, expired, {COLUMNS}) "
        f"VALUES ({sign}, 0, {', '.join(f'{rows}.{name}' for name in CHANGED)});"
        for sign, rows in signs
    )
    op.execute(
        f"CREATE TRIGGER {trigger} AFTER {operation} ON usage WHEN (SELECT kept FROM usage_state) BEGIN {notes} END"
    )
