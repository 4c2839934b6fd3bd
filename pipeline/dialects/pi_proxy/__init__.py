"""The events of pi-agent-core's proxy."""
