"""Commands to runs: stop, steer, answer."""
