"""The phases, and the table of them."""
