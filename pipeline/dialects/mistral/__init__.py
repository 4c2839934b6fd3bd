"""Mistral's conversations and agents."""

from pipeline.dialects.mistral.events import DIALECT as DIALECT
