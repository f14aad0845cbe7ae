"""PyTorch's private modules of function transforms, from which programs import a few names."""
