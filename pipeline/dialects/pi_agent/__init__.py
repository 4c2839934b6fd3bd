"""pi-agent-core's agent events, as snapshots or compact, and its messages."""
