"""Statistics of timings: intervals, ranks, diagnostics of a series, roofline bounds."""
