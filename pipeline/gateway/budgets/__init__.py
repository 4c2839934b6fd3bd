"""Budgets: what is used of each, and checks."""
