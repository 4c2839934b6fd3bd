"""Thread documents -> the messages of each SDK: one file each, and the registry of them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pipeline.dialects.pi_agent import export as pi_agent
from pipeline.dialects.pydantic_ai import export as pydantic_ai
from pipeline.dialects.vercel_ai import export as vercel_ai

Messages = list[dict[str, Any]]

EXPORTS: Final[dict[str, Callable[[dict[str, Any]], Messages]]] = {
    "pi-agent": pi_agent.messages,
    "pydantic-ai": pydantic_ai.messages,
    "vercel-ai": vercel_ai.messages,
}
