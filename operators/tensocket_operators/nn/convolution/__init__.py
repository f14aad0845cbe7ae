"""Convolution, padding and windows."""
