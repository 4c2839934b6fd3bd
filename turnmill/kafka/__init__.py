"""Connections to the brokers: addresses, TLS, logins, and the reasons why brokers refuse them."""
