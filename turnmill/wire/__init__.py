"""What travels: the envelope, the wires, and how bytes become JSON objects."""
