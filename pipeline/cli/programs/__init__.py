"""Programs that are no Python under `turnmill run`: a proxy on this machine hears what they say to models."""
