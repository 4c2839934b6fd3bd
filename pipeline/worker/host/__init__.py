"""What hosts a role: stages, their work, Faust, its consumer and transport."""
