"""`turnmill rerun`: sends the request of a stored answer again, with changes, and compares the two answers."""
