"""How long data stays: expiry, erasure of threads and tenants, and holds, which keep both from a thread."""
