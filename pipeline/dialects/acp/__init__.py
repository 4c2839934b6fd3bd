"""The Agent Client Protocol, as editors and agents speak it over a pipe."""

from pipeline.dialects.acp.events import DIALECT as DIALECT
