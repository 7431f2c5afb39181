"""What the harness is tried on: steps that are known, loads beside them, a simulated device."""
