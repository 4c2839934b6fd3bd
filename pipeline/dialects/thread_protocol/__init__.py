"""ThreadProtocol turns, as they are."""
