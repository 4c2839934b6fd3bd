"""Rights on tables that a migration adds: a store's workers need not own its tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def grant_as(known: str, table: str) -> None:
    """Let every role that may read or write the table `known` do the same with `table`; on Postgres."""
    rights = sa.text(
        "SELECT grantee, string_agg(privilege_type, ', ') FROM information_schema.role_table_grants "
        "WHERE table_schema = current_schema() AND table_name = :known AND grantee <> current_user "
        "AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') GROUP BY grantee"
    )
    bind = op.get_bind()
    for grantee, privileges in bind.execute(rights, {"known": known}).all():
        role = "PUBLIC" if grantee == "PUBLIC" else bind.dialect.identifier_preparer.quote(grantee)
        op.execute(f"GRANT {privileges} ON {table} TO {role}")
