"""How every client of ours reaches the brokers: addresses, TLS, logins, and why a broker refuses us."""
