"""Passes for every set of operators."""
