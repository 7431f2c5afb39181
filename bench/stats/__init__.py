"""Statistics of timings: intervals, effects of order, diagnostics of rounds, roofline bounds."""
