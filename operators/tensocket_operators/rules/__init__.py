"""How operators run in function transforms."""
