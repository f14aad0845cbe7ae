"""Families of layers that the modules of PyTorch's names, one folder up, gather."""
