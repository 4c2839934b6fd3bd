"""The topics, the records on them, and the ThreadProtocol models."""
