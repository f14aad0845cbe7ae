"""Operators of neural networks, by family."""
