"""Evidence that a mode took effect: generated code, graph breaks, torch's state in a call."""
