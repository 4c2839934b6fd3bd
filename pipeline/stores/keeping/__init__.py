"""How long data stays: retention, holds, erasure of threads and tenants."""
