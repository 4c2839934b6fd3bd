"""Sending the request of a stored answer again, with changes: for `turnmill rerun`, and for the dashboard."""
