"""Further programs: self-check, comparison with peers, instruction counts, claims."""
