"""Gemini's Interactions API."""

from pipeline.dialects.gemini_interactions.events import DIALECT as DIALECT
