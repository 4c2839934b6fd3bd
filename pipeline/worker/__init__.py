"""A worker: its roles, and for each a stage that turns records of one topic into work and safe offsets."""
