"""What starts workers: processes of this machine, or a scheduler."""
