"""Large values of turns outside the database: objects in buckets, packs on a disk."""
