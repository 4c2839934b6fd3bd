"""The gateway as a proxy before the providers of models: `docs/proxy.md`."""
