"""Turnmill's pipeline: streams of agent events in, complete conversations out."""

import topics  # noqa: F401  # before anything of the core is imported, it looks at what was compiled
