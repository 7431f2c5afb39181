"""The columns of `Environment` that make rows comparable."""

FINGERPRINT = {
    "torch_version": "torch",
    "cuda_version": "torch's CUDA",
    "triton_version": "Triton",
    "python_version": "Python",
    "driver_version": "the driver",
    "device_name": "the device",
    "power_limit_w": "the power limit",
    "cpu_name": "the CPU",
    "cpu_model": "the CPU's model",
    "cpu_capability": "the instruction set that torch uses",
    "cpu_instructions": "the CPU's instruction sets",
    "cpu_cores": "the number of cores",
    "cpu_quota_cores": "the CPU quota",
    "cpu_max_hz": "the CPU's highest clock",
    "cpu_boost": "the CPU's boost",
    "cpu_governor": "the CPU's governor",
    "cpu_microcode": "the CPU's microcode",
    "hypervisor": "the hypervisor",
    "variables": "environment variables",
    "source_id": "the source of modescope",
}
"""Columns that must be equal for rows to be comparable, and their names in messages.

The CPU counts for rows of a GPU too, because it dispatches and launches. The model's source is
compared separately, because it differs between the models of a sweep."""
