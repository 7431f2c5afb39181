"""What is measured (cases) and what came of it (records): their columns and their files."""
