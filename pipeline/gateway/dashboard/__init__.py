"""The page at `/`, and the live figures that it shows."""
