"""Connections to the brokers: addresses, TLS, logins, and the reasons of refusals."""
