"""opencode: what `opencode run --format json` writes, and its server's `/event`."""

from pipeline.dialects.opencode.events import DIALECT as DIALECT
