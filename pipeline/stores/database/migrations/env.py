"""Alembic's entry: runs within the connection and transaction of pipeline.stores.database.migrate."""

from alembic import context

from pipeline.stores.database.migrate import VERSION_TABLE
from pipeline.stores.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
