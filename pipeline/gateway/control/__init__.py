"""Commands to runs over HTTP: `docs/control.md`."""
