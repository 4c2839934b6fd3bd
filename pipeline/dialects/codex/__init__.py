"""Codex: the lines of `codex exec --json`, and the notifications of its app server."""

from pipeline.dialects.codex.events import DIALECT as DIALECT
