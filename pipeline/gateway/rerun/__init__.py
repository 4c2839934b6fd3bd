"""The request behind a stored answer, changed and sent again: for `turnmill rerun`, and for the dashboard."""
