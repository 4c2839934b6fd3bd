"""What hosts a role: its work, the offsets that are committed, Faust, its consumer and transport."""
