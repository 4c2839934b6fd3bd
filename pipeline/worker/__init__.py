"""A worker: its roles, each with a stage that hands records of one topic to its work, and commits safe offsets."""
