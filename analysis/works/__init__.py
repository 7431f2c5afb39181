"""The derived rows of a study, or of those of its works that are asked for."""
