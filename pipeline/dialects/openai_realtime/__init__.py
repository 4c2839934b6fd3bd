"""OpenAI's Realtime API: what a session's WebSocket or data channel says."""

from pipeline.dialects.openai_realtime.events import DIALECT as DIALECT
