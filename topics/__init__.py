"""The topics, the records on them, and the ThreadProtocol models."""

from topics import compiled

# "compiled" or "interpreted". Where they differ from their sources, compiled modules are not imported at all.
CORE = compiled.check()
