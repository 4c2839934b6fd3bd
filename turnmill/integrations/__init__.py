"""Publishing from where agents already stream, or let others listen: ASGI servers, and frameworks for agents."""
