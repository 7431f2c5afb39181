"""How a mode is chosen, and how the choice is said. `analysis.recommendation` is its face."""
