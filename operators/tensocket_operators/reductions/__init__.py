"""Sums, extremes and statistics over dimensions."""
