"""Conversions of graphs to quantized tensors, which do not exist here, and the arithmetic of rounding."""
