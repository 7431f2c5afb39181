"""Files in which `modescope.compare` saves a model for the processes that measure it."""

PICKLE_FOLDER, PICKLE_SUFFIX = "model", ".pt"
"""Folder in a study, and the files' suffix; before it stand a name and a hash, `Net.<hash>`."""

PICKLED_TARGET = "modescope.bench.steps.pickled_model:loaded"
"""Target of all such models."""

MODEL, INPUTS = "model", "inputs"
"""Keys of a file. INPUTS is None where the function under MODEL returns them."""
