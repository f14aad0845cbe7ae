"""Families of layers. ``nn/modules``, one folder up, gathers them under PyTorch's module names."""
