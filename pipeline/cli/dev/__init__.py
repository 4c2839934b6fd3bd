"""Pipelines on this machine, in the foreground: `demo`, `dev`, and the broker of `up` and `down`."""
