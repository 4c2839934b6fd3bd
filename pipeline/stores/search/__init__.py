"""Full-text search: the index of words, and the queries on it."""
