"""What is recorded for the backward."""
