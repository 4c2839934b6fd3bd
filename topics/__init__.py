"""What travels: the topics, their records, and the ThreadProtocol models."""
