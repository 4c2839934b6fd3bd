"""Reading finished turns and notices from their topics."""
