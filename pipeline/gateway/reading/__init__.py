"""Routes that read what is stored, and change it: threads, usage, search, feedback, holds, webhooks."""
