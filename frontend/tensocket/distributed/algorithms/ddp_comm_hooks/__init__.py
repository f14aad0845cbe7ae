"""Exchanges of gradients in other forms."""
