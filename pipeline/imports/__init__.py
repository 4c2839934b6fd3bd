"""Histories that people bring along -> ThreadProtocol documents: one file for each SDK, and the registry."""

from __future__ import annotations

from typing import Final

from pipeline.imports import pi_agent, pydantic_ai, vercel_ai
from pipeline.imports.history import Reader

IMPORTS: Final[dict[str, Reader]] = {
    "pi-agent": pi_agent.READER,
    "pydantic-ai": pydantic_ai.READER,
    "vercel-ai": vercel_ai.READER,
}
