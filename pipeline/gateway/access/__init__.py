"""Who calls and what they may: tokens, sign-in, limits, the audit log."""
