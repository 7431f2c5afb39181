"""The host: software, processor, and what makes rows comparable."""
