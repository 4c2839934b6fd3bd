"""Publishing runs: the publisher, its delivery to the broker, and its spool on disk."""
