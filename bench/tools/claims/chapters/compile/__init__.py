"""torch.compile: graphs, kernels, speed."""
