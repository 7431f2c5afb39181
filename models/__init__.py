"""Built-in models: each file's `build(**sizes)` returns a module and a tuple of example inputs.

Weights and inputs are fp32 on the CPU, drawn from torch's global generator; the caller seeds it.
The module is in train mode. It knows nothing of how it is measured, and accepts an empty batch.
"""
