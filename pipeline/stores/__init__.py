"""Storage of threads: SQLite and Postgres."""
