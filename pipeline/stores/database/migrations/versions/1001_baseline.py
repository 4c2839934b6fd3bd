"""The baseline: the tables of `stores.database.schema`, the counter of turns, triggers, and SQLite's index of words.

Until the first release the baseline itself is edited. The release copies its tables here, and each later change of the
schema is a migration of its own.
"""

# ruff: noqa: S608  # the names in these statements are this file's own

from alembic import op
from sqlalchemy import JSON, Table

from pipeline.stores.database.ids import COUNTER
from pipeline.stores.database.packing import DICTIONARIES
from pipeline.stores.database.schema import (
    CHANGED,
    NOTED,
    compatibility,
    dictionaries,
    expiry_state,
    metadata,
    usage_state,
)
from turnmill.clock import now_ms

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
# Leaves the notice that a row has changed; `n`: its number.
NOTE = (
    "INSERT INTO notices (id, due, keep_until, record) SELECT 'fact ' || n, 0, 0, {0}('v', 1, 'id', 'fact ' || n, "
    "'type', 'store.changed', 'at', 0, 'data', {0}('n', n, 'table', '{1}', 'key', {2}, 'row', {3}))"
)
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
    op.bulk_insert(expiry_state, [{"id": 1, "holder": "", "until": 0, "believed": now_ms()}])
    op.bulk_insert(compatibility, [{"oldest": revision}])
    op.bulk_insert(dictionaries, [{"id": number, "content": content} for number, content in DICTIONARIES.items()])
    if postgres:  # which would try to compress it again
        op.execute("ALTER TABLE turns ALTER record SET STORAGE EXTERNAL")
    for statement in (f"CREATE SEQUENCE {COUNTER}",) if postgres else SQLITE:
        op.execute(statement)
    for trigger in TRIGGERS:
        (_postgres if postgres else _sqlite)(trigger)
    for table in NOTED:
        _note_changes(table, postgres=postgres)


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


def _note_changes(table: Table, *, postgres: bool) -> None:
    """Make the triggers that leave a notice of each change of a row; of sessions, which begin anew, only of the end."""
    key, changed = NOTED[table]
    lasts = "new.session IS NULL" if "session" in table.c else "true"
    if postgres:
        note = NOTE.format("json_build_object", table, f"coalesce(new.{key}, old.{key})", "row_to_json(new)")
        op.execute(
            f"CREATE FUNCTION {table}_noted() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN "
            f"IF TG_OP = 'DELETE' OR {lasts} THEN n = nextval('{COUNTER}'); {note}; END IF; RETURN NULL; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {table}_noted AFTER INSERT OR DELETE OR UPDATE OF {changed} ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION {table}_noted()"
        )
        return
    values = (f"json(new.{c.name})" if isinstance(c.type, JSON) else f"new.{c.name}" for c in table.c)
    row = ", ".join(f"'{name}', {value}" for name, value in zip(table.c.keys(), values, strict=True))
    noted = NOTE.format("json_object", table, f"new.{key}", f"json_object({row})"), lasts
    gone = NOTE.format("json_object", table, f"old.{key}", "NULL"), "true"
    for event, (note, when) in {"INSERT": noted, f"UPDATE OF {changed}": noted, "DELETE": gone}.items():
        op.execute(
            f"CREATE TRIGGER {table}_noted_{event[:6]} AFTER {event} ON {table} WHEN {when} BEGIN "
            f"UPDATE {COUNTER} SET last = last + 1; {note} FROM (SELECT last AS n FROM {COUNTER}); END"
        )
