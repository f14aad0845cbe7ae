"""Pooling, resampling and grids."""
