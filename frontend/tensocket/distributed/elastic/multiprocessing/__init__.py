"""Names of PyTorch's launcher that programs import."""
