"""Test objects for the harness: steps with known times, co-running loads, a simulated device."""
