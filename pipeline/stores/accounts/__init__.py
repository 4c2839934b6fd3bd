"""Who may call, and who did what: tokens, saved views, the audit log."""
