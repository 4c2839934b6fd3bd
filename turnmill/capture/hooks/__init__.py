"""Hooks into HTTP libraries: a module for each library."""
