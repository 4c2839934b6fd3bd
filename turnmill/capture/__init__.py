"""Capture a program's calls to model providers: `docs/capture.md`."""
