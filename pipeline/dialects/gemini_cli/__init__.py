"""Gemini CLI's stream-json."""

from pipeline.dialects.gemini_cli.events import DIALECT as DIALECT
