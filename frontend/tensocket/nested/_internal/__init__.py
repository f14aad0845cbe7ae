"""Names that programs import from internal modules of PyTorch's package."""
