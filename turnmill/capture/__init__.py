"""Calls to the providers of models, captured as they pass by: `docs/capture.md`."""
