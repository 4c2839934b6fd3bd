"""Cohere's chat API, version 2."""

from pipeline.dialects.cohere.events import DIALECT as DIALECT
