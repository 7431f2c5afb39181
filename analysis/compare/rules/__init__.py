"""What is compared with what, what changed, and what fails."""
