"""What each response of a turn has used, and what it cost. No I/O."""
