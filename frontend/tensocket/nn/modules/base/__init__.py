"""Base classes of ``Module``: its members, its hooks, its state and its conversions."""
