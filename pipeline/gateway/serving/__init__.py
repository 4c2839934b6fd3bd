"""The app, the table of its parts, and its server: what is around every route."""
