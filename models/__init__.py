"""Built-in models: each file's `build(**sizes)` returns a module and a tuple of example inputs.

Everything is fp32 on the CPU, drawn from torch's global generator: seed it first. The module is
in train mode. A model is independent of how it is measured, and accepts an empty batch.
"""
