"""Publish from places where agents already stream or offer callbacks: ASGI servers, and frameworks for agents."""
