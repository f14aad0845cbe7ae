"""Operators that act on every element alone."""
