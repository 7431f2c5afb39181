"""Cases (what is measured) and records (the results): their columns and their files."""
