"""Evidence of whether a mode took effect: generated code, graph breaks, torch's state in a call."""
