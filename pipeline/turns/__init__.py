"""Functions of finished turns: hash, large values, redaction, tokens, threads and branches. Pure."""
