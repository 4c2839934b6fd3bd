"""`turnmill import`: conversations and sessions that other programs have kept."""
