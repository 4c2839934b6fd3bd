"""Connections to the brokers: addresses, TLS, logins, refusals, a producer, and readers of consumer groups."""
