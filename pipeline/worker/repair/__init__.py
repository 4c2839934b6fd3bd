"""What is read outside the roles: replays, the loss ledger, open runs."""
