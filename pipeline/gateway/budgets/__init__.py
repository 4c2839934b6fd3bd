"""Budgets: what is used of each, checks, and stopping of runs."""
