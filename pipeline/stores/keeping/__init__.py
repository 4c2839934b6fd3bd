"""How long data stays: expiry, erasure of threads and tenants, both only of what is not held, and holds."""
