"""The stages, each a thin agent over its core."""
