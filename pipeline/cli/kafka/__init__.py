"""Commands on topics: `topics`, `dlq`, `replay`."""
