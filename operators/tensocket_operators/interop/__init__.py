"""Exchange with the rest of Python: NumPy, DLPack, pickle and copy."""
