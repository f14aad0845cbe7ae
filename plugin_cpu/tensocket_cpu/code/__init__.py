"""Generated code: compiled, cached, and called on arrays."""
