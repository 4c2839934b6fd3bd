"""The topics, the records on them, and the ThreadProtocol models."""

from topics import compiled

# "compiled" or "interpreted". Raises ImportError if compiled modules differ from their sources.
CORE = compiled.check()
