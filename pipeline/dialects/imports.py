"""Histories that people bring along -> ThreadProtocol documents: one file for each SDK, and the registry."""

from __future__ import annotations

from typing import Final

from pipeline.dialects.history import Reader
from pipeline.dialects.pi_agent import history as pi_agent
from pipeline.dialects.pydantic_ai import history as pydantic_ai
from pipeline.dialects.vercel_ai import history as vercel_ai

IMPORTS: Final[dict[str, Reader]] = {
    "pi-agent": pi_agent.READER,
    "pydantic-ai": pydantic_ai.READER,
    "vercel-ai": vercel_ai.READER,
}
