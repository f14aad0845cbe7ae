"""Passes: analyses and changes of graphs."""
