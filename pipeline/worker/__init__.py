"""A worker: its roles, each with a stage that hands records of a topic to its work, and commits safe offsets."""
