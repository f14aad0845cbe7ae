"""Backends of compiled functions, under PyTorch's import paths."""
