"""How operators run on arrays: direct kernels, generated programs, primitives."""
