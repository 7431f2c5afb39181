"""Further programs: self-check and claims."""
