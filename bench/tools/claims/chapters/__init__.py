"""The claims, a file per chapter."""
