"""Tokens, costs and times: rows, sums, reports, prices."""
