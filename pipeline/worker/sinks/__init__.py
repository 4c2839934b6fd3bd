"""The roles that write to stores and metrics, and the store role's background work."""
