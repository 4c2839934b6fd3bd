"""Pydantic AI's events and messages."""
