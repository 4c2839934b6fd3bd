"""The app and its server: what is around every route."""
