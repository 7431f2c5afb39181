"""Further programs: self-check, instruction counts, claims."""
