"""The chunks of Mastra's agents: `fullStream`."""

from pipeline.dialects.mastra.events import DIALECT as DIALECT
