"""The events that `stream_async` of Strands Agents yields, of an agent, a graph or a swarm."""

from pipeline.dialects.strands.events import DIALECT as DIALECT
