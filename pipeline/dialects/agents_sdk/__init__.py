"""The Agents SDK streaming contract: named events."""
