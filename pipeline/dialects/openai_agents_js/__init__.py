"""The stream events of OpenAI's Agents SDK for JavaScript."""

from pipeline.dialects.openai_agents_js.events import DIALECT as DIALECT
