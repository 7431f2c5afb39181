"""The five operators in Triton for a GPU: torch.ops.modescope_triton.

Importing it needs the package triton. A launcher contains only operators of torch and wrapped
kernels, so that torch.compile sees the kernels. Kernels are not tuned: a table gives block and
warps by width, so that after the first call of a size nothing is compiled or timed, such as while
a CUDA graph is captured. A kernel's name, which a trace shows, begins with modescope_.
"""
