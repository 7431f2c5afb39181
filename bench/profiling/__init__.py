"""Where does the time of a step go? torch's profiler, and its traces read back."""
