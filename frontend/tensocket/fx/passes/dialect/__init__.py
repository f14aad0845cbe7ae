"""Passes for one set of operators."""
