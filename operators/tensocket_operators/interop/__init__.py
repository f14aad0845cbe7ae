"""Exchange with other Python libraries: NumPy, DLPack, pickle and copy."""
