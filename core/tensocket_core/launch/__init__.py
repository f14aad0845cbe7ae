"""Execution of operators on arrays: direct kernels, generated programs, primitives."""
