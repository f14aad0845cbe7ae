"""Generated code: compiled, kept, and called on arrays."""
