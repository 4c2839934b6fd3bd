"""Commands on what is stored: threads, exports, usage, search, tenants, tokens, audit, archive."""
