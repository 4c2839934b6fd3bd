"""The AI SDK's UI message stream, and its UI messages."""
