"""Work on a finished turn: its hash, large values, redaction, tokens, the thread it belongs to. Pure."""
