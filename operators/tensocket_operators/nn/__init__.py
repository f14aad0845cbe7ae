"""Operators of neural networks, one package per family."""
