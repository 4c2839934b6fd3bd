"""Non-Python programs under `turnmill run`: a proxy on this machine captures their calls of models."""
