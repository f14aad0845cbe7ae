"""Functions of the main namespace that belong to none of PyTorch's modules."""
