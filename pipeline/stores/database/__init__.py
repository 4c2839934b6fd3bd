"""The database itself: tables, migrations, connections, and statements in the form that each driver takes."""
