"""Ollama's API: JSON lines, each a piece of a message."""

from pipeline.dialects.ollama.events import DIALECT as DIALECT
