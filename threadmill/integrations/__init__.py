"""Publishing from where agents already stream: ASGI servers, Pydantic AI, programs without an event loop."""
