"""Routes that read what is stored, and change it: threads, runs, usage, search, holds, webhooks."""
