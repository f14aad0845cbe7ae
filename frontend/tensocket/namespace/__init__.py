"""Functions of the main namespace that lie in none of PyTorch's modules."""
