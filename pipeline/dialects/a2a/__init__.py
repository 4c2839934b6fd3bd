"""The Agent2Agent protocol, 1.x and 0.3, over JSON-RPC and REST."""

from pipeline.dialects.a2a.events import DIALECT as DIALECT
