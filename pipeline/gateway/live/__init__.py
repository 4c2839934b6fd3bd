"""Live streams: the events of a thread as they come, resumable at the exact event."""
