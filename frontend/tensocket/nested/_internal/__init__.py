"""Names that programs import from the insides of PyTorch's package."""
