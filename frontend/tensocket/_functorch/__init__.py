"""PyTorch's private modules of function transforms: programs import a few names from them."""
