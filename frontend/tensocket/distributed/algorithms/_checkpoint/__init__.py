"""Modules whose activations are recomputed."""
